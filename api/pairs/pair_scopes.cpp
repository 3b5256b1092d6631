//===- api/pairs/pair_scopes.cpp - what a set of pairs has in common --------------------------===//

#include "api/pairs/pair_scopes.h"

#include "api/pairs/verdict_limits.h"

#include <algorithm>
#include <cmath>

namespace braid {
namespace {

/// How far apart two figures are; 1 if they are equal.
double apart(double figure, double expected) {
  if (figure <= 0 || expected <= 0)
    return 1;
  return std::max(figure / expected, expected / figure);
}

/// A device, and how many pairs of each direction there are, and are found.
struct EndCount {
  size_t from = 0, to = 0, foundFrom = 0, foundTo = 0;

  /// One pair may be its other end's fault. Of many, noise may hide one.
  static bool isNearlyAll(size_t found, size_t all) {
    constexpr double kNearly = 0.9;
    return all > 1 && static_cast<double>(found) >= std::ceil(kNearly * static_cast<double>(all));
  }
  bool has(Flow flow) const {
    const bool sends = isNearlyAll(foundFrom, from), receives = isNearlyAll(foundTo, to);
    return flow == Flow::Both ? sends && receives : flow == Flow::Sending ? sends : receives;
  }
};

bool isPartOf(const PairRow &row, int64_t device, Flow flow) {
  return (row.source == device && flow != Flow::Receiving) ||
         (row.destination == device && flow != Flow::Sending);
}

class ScopeFinder {
public:
  ScopeFinder(const PairFindings &findings, llvm::ArrayRef<const PairRow *> universe)
      : universe_(universe) {
    for (const auto &[pair, finding] : findings.all())
      open_[pair] = &finding;
    for (const PairRow *row : universe) {
      EndCount &source = ends_[row->source], &destination = ends_[row->destination];
      ++source.from;
      ++destination.to;
      source.foundFrom += findings.has(*row);
      destination.foundTo += findings.has(*row);
    }
  }

  std::vector<ScopedFindings> find(VerdictScope whole) {
    if (universe_.size() >= kLeastGroup && open_.size() == universe_.size())
      takeAll(whole);
    for (Flow flow : {Flow::Both, Flow::Sending, Flow::Receiving})
      for (const auto &[device, count] : ends_)
        if (count.has(flow))
          takeDevice(device, flow);
    while (!open_.empty())
      takePair();
    return std::move(scopes_);
  }

private:
  void takeAll(VerdictScope whole) {
    ScopedFindings scoped;
    scoped.scope.scope = whole;
    for (const auto &[pair, finding] : open_)
      scoped.findings.push_back(finding);
    close(std::move(scoped));
  }

  void takeDevice(int64_t device, Flow flow) {
    ScopedFindings scoped;
    scoped.scope.scope = VerdictScope::Device;
    scoped.scope.device = device;
    scoped.scope.flow = flow;
    for (const auto &[pair, finding] : open_)
      if (isPartOf(*finding->row, device, flow))
        scoped.findings.push_back(finding);
    // What is left of the device may be the fault of those that were taken before.
    if (scoped.findings.size() > 1)
      close(std::move(scoped));
  }

  void takePair() {
    const PairFinding *first = open_.begin()->second;
    ScopedFindings scoped;
    scoped.scope.source = first->row->source;
    scoped.scope.destination = first->row->destination;
    scoped.findings.push_back(first);
    auto back = open_.find({first->row->destination, first->row->source});
    scoped.scope.bothWays = back != open_.end();
    if (scoped.scope.bothWays)
      scoped.findings.push_back(back->second);
    close(std::move(scoped));
  }

  void close(ScopedFindings scoped) {
    std::set<Path> paths;
    const PairFinding *worst = scoped.findings.front();
    for (const PairFinding *finding : scoped.findings) {
      paths.insert(finding->paths.begin(), finding->paths.end());
      if (apart(finding->figure, finding->expected) > apart(worst->figure, worst->expected))
        worst = finding;
      open_.erase({finding->row->source, finding->row->destination});
    }
    scoped.scope.paths.assign(paths.begin(), paths.end());
    scoped.scope.figure = worst->figure;
    scoped.scope.expected = worst->expected;
    scoped.scope.link = worst->row->link.kind;
    scopes_.push_back(std::move(scoped));
  }

  llvm::ArrayRef<const PairRow *> universe_;
  std::map<std::pair<int64_t, int64_t>, const PairFinding *> open_;
  std::map<int64_t, EndCount> ends_;
  std::vector<ScopedFindings> scopes_;
};

} // namespace

void PairFindings::add(const PairRow &row, std::optional<Path> path, double figure,
                       double expected) {
  PairFinding &finding = findings_[{row.source, row.destination}];
  if (!finding.row)
    finding = {&row, {}, figure, expected};
  if (path)
    finding.paths.insert(*path);
}

const PairFinding *PairFindings::find(int64_t source, int64_t destination) const {
  auto found = findings_.find({source, destination});
  return found == findings_.end() ? nullptr : &found->second;
}

std::vector<ScopedFindings> scopesOf(const PairFindings &findings,
                                     llvm::ArrayRef<const PairRow *> universe, VerdictScope whole) {
  return ScopeFinder(findings, universe).find(whole);
}

} // namespace braid
