//===- api/pairs/recommend.cpp - what follows from a report about pairs -----------------------===//

#include "api/pairs/recommend.h"

#include "api/pairs/pair_figures.h"
#include "api/pairs/pair_names.h"
#include "api/pairs/ring_order.h"
#include "api/pairs/verdict_limits.h"
#include "api/pairs/verdict_words.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace braid {
namespace {

/// What is no more than noise.
struct Noise {
  explicit Noise(const PairReport &report) {
    // CPU ranks share cores with all that runs there.
    if (report.backend == kCpuLimits.backend)
      noticedGain = sameLevel = 3;
  }
  double noticedGain = 1.05; ///< an order or a path that is faster by less is not faster
  double sameLevel = 1.12;   ///< noise of 5 % makes the largest of equal rates that times the least
};

/// A ring of one device less does that much less of everything. It has to be worth more than the
/// noise on top, and a ring that is half as fast again is worth asking for.
constexpr double kLeastWorth = 1.5;

using Members = std::vector<size_t>;

Members without(const Members &members, size_t device) {
  Members rest = members;
  llvm::erase_value(rest, device);
  return rest;
}

std::string listed(const std::vector<int64_t> &devices) {
  return fmt::format("{}", fmt::join(devices, ", "));
}

/// Who stays, and in which order.
class MeshChoice {
public:
  MeshChoice(const PairReport &report, const std::vector<Verdict> &verdicts)
      : verdicts_(verdicts), noise_(report), table_(report), rates_(report.devices.size()),
        levels_(report.devices.size()) {
    for (size_t source = 0; source < table_.devices(); ++source) {
      members_.push_back(source);
      for (size_t destination = 0; destination < table_.devices(); ++destination)
        if (const PairRow *row = table_.row(source, destination))
          rates_.at(source, destination) = bestBandwidth(*row);
    }
    levels_ = rates_;
    levelRates();
  }

  void decide(Recommendations &recommendations) {
    leaveOutFaulty(recommendations.leaveOut);
    leaveOutUnavoidable(recommendations.leaveOut);
    leaveOutSlow(recommendations.leaveOut);
    recommendations.order = order();
  }

private:
  double slowestOf(const Members &members) const {
    return members.size() < 2 ? 0 : rateOf(rates_, ringOf(members)).slowest;
  }

  /// Rates that differ by noise are equal, so that a ring keeps the order of the numbers where no
  /// other one is really faster.
  Members ringOf(const Members &members) const { return fastestRing(levels_, members); }

  void levelRates() {
    std::vector<double *> sorted;
    for (size_t source = 0; source < table_.devices(); ++source)
      for (size_t destination = 0; destination < table_.devices(); ++destination)
        if (double &level = levels_.at(source, destination); level > 0)
          sorted.push_back(&level);
    llvm::sort(sorted, [](const double *a, const double *b) { return *a < *b; });
    double lowest = 0;
    for (double *level : sorted) {
      if (*level > noise_.sameLevel * lowest)
        lowest = *level;
      *level = lowest;
    }
  }

  void leaveOut(std::vector<LeftOut> &all, size_t device, const std::string &reason) {
    LeftOut left;
    left.device = static_cast<int64_t>(device);
    left.slowestWithGBps = slowestOf(members_);
    members_ = without(members_, device);
    left.slowestWithoutGBps = slowestOf(members_);
    left.sentence = fmt::format("leave out device {}: {}", device, reason);
    if (left.slowestWithoutGBps > noise_.noticedGain * left.slowestWithGBps)
      left.sentence += ", and " + gain(left.slowestWithGBps, left.slowestWithoutGBps);
    all.push_back(std::move(left));
  }

  static std::string gain(double with, double after) {
    if (with > 0)
      return fmt::format("the slowest hop of the best ring then runs at {} GB/s instead of {} GB/s",
                         figureText(after), figureText(with));
    return fmt::format("no ring of all devices works; the slowest hop of one without it runs at {} "
                       "GB/s",
                       figureText(after));
  }

  // -- A device that has a fault of its own. --

  void leaveOutFaulty(std::vector<LeftOut> &all) {
    for (const Verdict &verdict : verdicts_) {
      const bool isNamed = verdict.scope == VerdictScope::Device &&
                           severityOf(verdict.kind) == VerdictSeverity::Fault;
      if (!isNamed || members_.size() <= 2)
        continue;
      const auto device = static_cast<size_t>(verdict.device);
      if (llvm::is_contained(members_, device))
        leaveOut(all, device, verdict.sentence);
    }
  }

  // -- A device whose faults no ring avoids. --

  int64_t faultsOf(size_t device) const {
    int64_t faults = 0;
    for (size_t other : members_)
      for (const PairRow *row : {table_.row(device, other), table_.row(other, device)})
        faults += row && bestBandwidth(*row) <= 0 && isFault(worstOutcome(*row));
    return faults;
  }

  void leaveOutUnavoidable(std::vector<LeftOut> &all) {
    while (members_.size() > 2 && slowestOf(members_) <= 0) {
      auto worst = std::max_element(members_.begin(), members_.end(),
                                    [&](size_t a, size_t b) { return faultsOf(a) < faultsOf(b); });
      const int64_t faults = faultsOf(*worst);
      if (faults == 0)
        return; // what is missing was not measured
      leaveOut(all, *worst, fmt::format("{} of its transfers to and from the others fail", faults));
    }
  }

  // -- A device that slows everybody down. --

  void leaveOutSlow(std::vector<LeftOut> &all) {
    leaveOutSlowTogether(all);
    while (members_.size() > leastMembers()) {
      const double with = slowestOf(members_);
      const double worth = worthOf(members_.size(), members_.size() - 1);
      size_t best = members_.front();
      double fastest = 0;
      for (size_t device : suspects())
        if (const double rate = slowestOf(without(members_, device)); rate > fastest) {
          fastest = rate;
          best = device;
        }
      if (with <= 0 || fastest < worth * with)
        return;
      leaveOut(all, best, "it slows down all others");
    }
  }

  /// Of several slow devices, leaving out one alone wins nothing.
  void leaveOutSlowTogether(std::vector<LeftOut> &all) {
    Members rest = members_;
    std::vector<int64_t> slow;
    for (const Verdict &verdict : verdicts_)
      if (verdict.kind == VerdictKind::SlowDevice && llvm::is_contained(rest, verdict.device)) {
        rest = without(rest, static_cast<size_t>(verdict.device));
        slow.push_back(verdict.device);
      }
    if (slow.size() < 2 || rest.size() < leastMembers())
      return;
    const double with = slowestOf(members_), after = slowestOf(rest);
    if (with <= 0 || after < worthOf(members_.size(), rest.size()) * with)
      return;
    members_ = std::move(rest);
    for (int64_t device : slow)
      all.push_back({device, with, after,
                     fmt::format("leave out device {}: together, devices {} slow down all others, "
                                 "and {}",
                                 device, listed(slow), gain(with, after))});
  }

  /// Half of a machine is no machine.
  size_t leastMembers() const { return std::max<size_t>(2, (table_.devices() + 1) / 2); }
  double worthOf(size_t with, size_t after) const {
    return std::max(kLeastWorth,
                    noise_.noticedGain * static_cast<double>(with) / static_cast<double>(after));
  }

  /// Both ends of the slowest hop of the best ring: no other device makes it faster by leaving.
  Members suspects() const {
    const Members ring = ringOf(members_);
    const double slowest = rateOf(rates_, ring).slowest;
    std::set<size_t> ends;
    for (size_t i = 0; i < ring.size(); ++i) {
      const size_t next = ring[(i + 1) % ring.size()];
      if (rates_.at(ring[i], next) == slowest)
        ends.insert({ring[i], next});
    }
    return {ends.begin(), ends.end()};
  }

  // -- The order of the rest. --

  MeshOrder order() const {
    MeshOrder order;
    if (members_.size() < 2) {
      order.devices.assign(members_.begin(), members_.end());
      order.sentence = "there are no pairs";
      return order;
    }
    const Members ring = ringOf(members_);
    order.slowestGBps = rateOf(rates_, ring).slowest;
    order.slowestByNumberGBps = rateOf(rates_, members_).slowest;
    const bool isFaster = order.slowestGBps > noise_.noticedGain * order.slowestByNumberGBps;
    const Members &chosen = isFaster ? ring : members_;
    order.devices.assign(chosen.begin(), chosen.end());
    if (!isFaster)
      order.slowestGBps = order.slowestByNumberGBps;
    order.sentence = sentenceOf(order, isFaster);
    return order;
  }

  static std::string sentenceOf(const MeshOrder &order, bool isFaster) {
    if (order.slowestGBps <= 0)
      return "no ring of all devices works: in any order, data of some hop do not arrive or were "
             "not measured";
    if (!isFaster)
      return fmt::format("keep devices in the order of their numbers: no other order is faster, "
                         "the slowest hop runs at {} GB/s",
                         figureText(order.slowestGBps));
    const std::string byNumber = order.slowestByNumberGBps > 0
                                     ? fmt::format("in the order of their numbers at {} GB/s",
                                                   figureText(order.slowestByNumberGBps))
                                     : "and the order of their numbers does not work";
    return fmt::format("order devices {}: the slowest hop then runs at {} GB/s, {}",
                       listed(order.devices), figureText(order.slowestGBps), byNumber);
  }

  const std::vector<Verdict> &verdicts_;
  const Noise noise_;
  PairTable table_;
  HopRates rates_, levels_;
  Members members_;
};

/// How a path of a pair does; the larger the better; 0: it does not work.
using Merit = double (*)(const PathReport &);
double meritOfSmall(const PathReport &path) {
  const double us = latencyOf(path);
  return us > 0 ? 1 / us : 0;
}

/// The path of each row, by one merit: that of most rows wherever it is as good as the row's best.
std::vector<std::optional<Path>> choosePaths(const std::vector<const PairRow *> &rows, Merit merit,
                                             const Noise &noise) {
  auto bestOf = [&](const PairRow &row) {
    std::optional<Path> best;
    for (Path path : kAllPaths)
      if (merit(on(row, path)) > (best ? merit(on(row, *best)) : 0))
        best = path;
    return best;
  };
  std::map<Path, size_t> votes;
  for (const PairRow *row : rows)
    if (std::optional<Path> best = bestOf(*row))
      ++votes[*best];
  std::vector<std::optional<Path>> chosen;
  for (const PairRow *row : rows) {
    std::optional<Path> best = bestOf(*row);
    auto most = std::max_element(votes.begin(), votes.end(),
                                 [](const auto &a, const auto &b) { return a.second < b.second; });
    if (best && noise.noticedGain * merit(on(*row, most->first)) >= merit(on(*row, *best)))
      best = most->first;
    chosen.push_back(best);
  }
  return chosen;
}

using PathField = std::optional<Path> PathChoice::*;

/// "between devices 1 and 2, from device 3 to device 4 and of 7 more pairs"
std::string pairsOf(const std::vector<PathChoice> &choices, PathField field,
                    std::optional<Path> path) {
  std::set<std::pair<int64_t, int64_t>> open;
  for (const PathChoice &choice : choices)
    if (choice.*field == path)
      open.insert({choice.source, choice.destination});
  std::vector<std::string> names;
  constexpr size_t kMostNamed = 6;
  while (!open.empty() && names.size() < kMostNamed) {
    Verdict pair;
    std::tie(pair.source, pair.destination) = *open.begin();
    open.erase(open.begin());
    pair.bothWays = open.erase({pair.destination, pair.source}) > 0;
    names.push_back(subjectOf(pair).substr(std::string("transfers ").size()));
  }
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (!open.empty())
    text += fmt::format(" and of {} more ordered pairs", open.size());
  return text;
}

std::string pathSentence(const std::vector<PathChoice> &choices, const char *what,
                         PathField field) {
  std::map<std::optional<Path>, size_t> counts;
  for (const PathChoice &choice : choices)
    ++counts[choice.*field];
  auto most = std::max_element(counts.begin(), counts.end(), [](const auto &a, const auto &b) {
    return std::pair(a.first.has_value(), a.second) < std::pair(b.first.has_value(), b.second);
  });
  if (!most->first)
    return fmt::format("{}: no path works", what);
  std::string text = fmt::format("{}: {}", what, name(*most->first).str());
  for (const auto &[path, count] : counts)
    if (path != most->first)
      text += fmt::format(", but {} {}", path ? name(*path).str() : "no path",
                          pairsOf(choices, field, path));
  return text;
}

void choosePathsOf(const PairReport &report, Recommendations &recommendations) {
  const PairTable table(report);
  std::vector<const PairRow *> rows;
  for (size_t source = 0; source < table.devices(); ++source)
    for (size_t destination = 0; destination < table.devices(); ++destination)
      if (const PairRow *row = table.row(source, destination))
        rows.push_back(row);
  if (rows.empty())
    return;
  const Noise noise(report);
  const auto small = choosePaths(rows, meritOfSmall, noise),
             large = choosePaths(rows, bandwidthOf, noise);
  for (size_t i = 0; i < rows.size(); ++i) {
    PathChoice choice{rows[i]->source, rows[i]->destination, small[i], large[i]};
    choice.latencyUs = small[i] ? latencyOf(on(*rows[i], *small[i])) : 0;
    choice.GBps = large[i] ? bandwidthOf(on(*rows[i], *large[i])) : 0;
    recommendations.paths.push_back(choice);
  }
  recommendations.pathSentences = {
      pathSentence(recommendations.paths, "for small transfers", &PathChoice::small),
      pathSentence(recommendations.paths, "for large transfers", &PathChoice::large)};
}

} // namespace

std::vector<std::string> Recommendations::sentences() const {
  std::vector<std::string> all;
  for (const LeftOut &left : leaveOut)
    all.push_back(left.sentence);
  if (!order.sentence.empty())
    all.push_back(order.sentence);
  all.insert(all.end(), pathSentences.begin(), pathSentences.end());
  return all;
}

Recommendations recommend(const PairReport &report, const std::vector<Verdict> &verdicts) {
  Recommendations recommendations;
  MeshChoice(report, verdicts).decide(recommendations);
  choosePathsOf(report, recommendations);
  return recommendations;
}

} // namespace braid
