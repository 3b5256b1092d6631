//===- api/pairs/verdicts.cpp - what is wrong between the devices of a machine ----------------===//
//
// What was found out about a pair explains what comes after it: a pair that hangs is not also slow,
// and a pair that goes through the host is not also below its nominal rate.
//
//===----------------------------------------------------------------------------------------===//

#include "api/pairs/verdicts.h"

#include "api/pairs/outliers.h"
#include "api/pairs/pair_figures.h"
#include "api/pairs/pair_names.h"
#include "api/pairs/pair_scopes.h"
#include "api/pairs/verdict_limits.h"
#include "api/pairs/verdict_words.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace braid {
namespace {

using Rows = std::vector<const PairRow *>;

/// From where on a figure of a report stands out.
struct Limits {
  explicit Limits(const PairReport &report) : isCpu(report.backend == kCpuLimits.backend) {}

  bool isCpu;
  double slowShare(LinkClass kind) const {
    return isCpu ? kCpuLimits.slowShare : kLinkLimits[static_cast<size_t>(kind)].slowShare;
  }
  double directionShare() const { return isCpu ? kCpuLimits.directionShare : kDirectionShare; }
  double togetherShare() const { return isCpu ? kCpuLimits.togetherShare : kTogetherShare; }
  /// From where on a link is tried with others, whatever that will say.
  double suspectShare() const { return isCpu ? kCpuLimits.bridgeShare : kTogetherShare; }
  double bridgeShare() const { return isCpu ? kCpuLimits.bridgeShare : kBridgeShare; }
  double latencyTimes() const { return isCpu ? kCpuLimits.latencyTimes : kLatencyTimes; }
  double latencyUs() const { return isCpu ? kCpuLimits.latencyUs : kLatencyUs; }
};

const LinkLimits &limitsOf(const PairRow &row) {
  return kLinkLimits[static_cast<size_t>(row.link.kind)];
}

/// Whether peer access was asked for and was never to be had, though data get there otherwise.
bool hasNoPeerPath(const PairRow &row) {
  auto is = [&](Path path, PathOutcome outcome) { return on(row, path).outcome == outcome; };
  const bool isRefused =
      llvm::any_of(kPeerPaths, [&](Path path) { return is(path, PathOutcome::Unavailable); });
  const bool isHad =
      llvm::any_of(kPeerPaths, [&](Path path) { return is(path, PathOutcome::Measured); });
  const bool isReached =
      is(Path::Host, PathOutcome::Measured) || is(Path::Messages, PathOutcome::Measured);
  return isRefused && !isHad && isReached;
}

/// Why a pair has to go through the host; nothing if it does not.
std::optional<std::string> hostReason(const PairRow &row) {
  if (worstOutcome(row) != PathOutcome::Measured)
    return std::nullopt;
  if (!row.link.noPeerAccess.empty())
    return row.link.noPeerAccess;
  if (!hasNoPeerPath(row))
    return std::nullopt;
  for (Path path : kPeerPaths)
    if (on(row, path).outcome == PathOutcome::Unavailable)
      return on(row, path).reason;
  return std::nullopt;
}

/// Whether reaching into the other device's memory is no faster than memory of the host.
bool isAsSlowAsHost(const PairRow &row) {
  const std::optional<Path> peer = fastestPath(row, kPeerPaths);
  const double host = bandwidthOf(on(row, Path::Host));
  return peer && host > 0 && bandwidthOf(on(row, *peer)) <= kHostTimes * host;
}

/// Whether a transfer of that size takes so long that its bandwidth is the link's.
bool fillsLink(const PairRow &row, int64_t bytes) {
  constexpr double kBytesOfGBpsAndUs = 1e3;
  return static_cast<double>(bytes) >= row.link.nominalGBps * kLeastTransferUs * kBytesOfGBpsAndUs;
}

/// The fastest point of a peer path, if it is large enough to say something about the link.
const PathPoint *linkPoint(const PairRow &row) {
  const std::optional<Path> peer = fastestPath(row, kPeerPaths);
  const PathPoint *point = peer ? largestPoint(on(row, *peer)) : nullptr;
  return point && fillsLink(row, point->bytes) ? point : nullptr;
}

double shouldGive(const PairRow &row) { return row.link.nominalGBps * limitsOf(row).efficiency; }

/// A path of the pair that was measured and is not among those that stand out.
std::optional<Path> rightPath(const PairFinding &finding) {
  for (Path path : kPeerPaths)
    if (bandwidthOf(on(*finding.row, path)) > 0 && !finding.paths.count(path))
      return path;
  return std::nullopt;
}

class Judge {
public:
  explicit Judge(const PairReport &report) : report_(report), limits_(report), table_(report) {}

  std::vector<Verdict> verdicts() {
    judgeFaults();
    judgeHostOnly();
    judgeBridges();
    for (const Rows &rows : groups())
      judgeGroup(rows);
    judgeNarrowLinks();
    mergeDevices();
    llvm::stable_sort(verdicts_, [](const Verdict &a, const Verdict &b) {
      return std::tuple(severityOf(a.kind), a.kind) < std::tuple(severityOf(b.kind), b.kind);
    });
    for (Verdict &verdict : verdicts_)
      putIntoWords(verdict);
    return std::move(verdicts_);
  }

  /// As linksSlowTogether(). Leaves nothing that is of use.
  std::vector<CoupledLink> slowTogether(Path path) {
    judgeFaults();
    PairFindings slow;
    for (const Rows &rows : groups()) {
      PairFindings explained;
      judgeBandwidth(rows, explained);
      judgeNominal(rows, explained);
      if (!limitsOf(*rows.front()).isShared)
        judgeTogetherBy(path, rows, limits_.suspectShare(), explained, slow);
    }
    std::vector<CoupledLink> links;
    for (const ScopedFindings &scoped : scopesOf(slow, allRows(), VerdictScope::All))
      if (const Verdict &scope = scoped.scope; scope.scope == VerdictScope::Pair)
        links.push_back({scope.source, scope.destination, scope.bothWays});
    return links;
  }

private:
  /// Of pairs that work, those that ought to be alike.
  std::vector<Rows> groups() const {
    std::vector<Rows> all;
    for (const Rows &like : groupsOfLike(report_))
      for (bool isHostOnly : {false, true}) {
        Rows rows = only(like, [&](const PairRow &row) {
          return hostReason(row).has_value() == isHostOnly && !faulty_.has(row);
        });
        if (!rows.empty())
          all.push_back(std::move(rows));
      }
    return all;
  }
  template <class Predicate> static Rows only(const Rows &rows, Predicate predicate) {
    Rows kept;
    llvm::copy_if(rows, std::back_inserter(kept),
                  [&](const PairRow *row) { return predicate(*row); });
    return kept;
  }
  Rows allRows() const {
    Rows rows;
    for (size_t source = 0; source < table_.devices(); ++source)
      for (size_t destination = 0; destination < table_.devices(); ++destination)
        if (const PairRow *row = table_.row(source, destination))
          rows.push_back(row);
    return rows;
  }

  void add(VerdictKind kind, Verdict scope, std::string unit, std::string cause) {
    scope.kind = kind;
    scope.unit = std::move(unit);
    scope.cause = std::move(cause);
    verdicts_.push_back(std::move(scope));
  }

  // -- What failed. --

  void judgeFaults() {
    for (auto [outcome, kind] : {std::pair(PathOutcome::Hung, VerdictKind::Hung),
                                 {PathOutcome::Crashed, VerdictKind::Crashed},
                                 {PathOutcome::WrongData, VerdictKind::WrongData}}) {
      judgePairs(outcome, kind, /*together=*/false);
      if (outcome == PathOutcome::WrongData) // of one that ends all, nobody knows whose fault it is
        judgePairs(outcome, kind, /*together=*/true);
      judgeAll(outcome, kind);
    }
  }

  void judgePairs(PathOutcome outcome, VerdictKind kind, bool together) {
    PairFindings found;
    for (const PairRow *row : allRows())
      for (Path path : kAllPaths)
        if (on(*row, path).outcome == outcome && isTogether(on(*row, path)) == together) {
          found.add(*row, path);
          if (llvm::is_contained(kPeerPaths, path)) // what fails elsewhere says nothing of these
            faulty_.add(*row, path);
        }
    for (ScopedFindings &scoped : scopesOf(found, allRows(), VerdictScope::All)) {
      const PairFinding &first = *scoped.findings.front();
      const PathReport &path = on(*first.row, *first.paths.begin());
      if (outcome == PathOutcome::WrongData)
        scoped.scope.wrong = path.wrong;
      scoped.scope.together = together;
      add(kind, std::move(scoped.scope), "", causeOfFault(path));
    }
  }

  static bool isTogether(const PathReport &path) { return path.wrong && path.wrong->together; }

  void judgeAll(PathOutcome outcome, VerdictKind kind) {
    if (report_.together != outcome)
      return;
    Verdict all;
    all.scope = VerdictScope::All;
    all.together = true;
    add(kind, std::move(all), "", report_.togetherReason);
  }

  static std::string causeOfFault(const PathReport &path) {
    if (!path.wrong)
      return path.reason;
    const int differing = path.wrong->expected ^ path.wrong->got;
    const bool isOneBit = differing != 0 && (differing & (differing - 1)) == 0;
    return isOneBit ? "one bit of the byte differs, as a failing memory or link leaves it"
                    : "the whole byte differs, as when data are not there yet or from before";
  }

  // -- What never reaches into the other device's memory. --

  void judgeHostOnly() {
    std::map<std::string, PairFindings> byReason;
    for (const PairRow *row : allRows())
      if (std::optional<std::string> reason = hostReason(*row))
        byReason[*reason].add(*row, std::nullopt, bandwidthOf(on(*row, Path::Host)));
    for (auto &[reason, found] : byReason)
      for (ScopedFindings &scoped : scopesOf(found, allRows(), VerdictScope::All))
        add(VerdictKind::HostFallback, std::move(scoped.scope), "GB/s", reason);
  }

  // -- What is unlike its like. --

  void judgeGroup(const Rows &rows) {
    PairFindings explained;
    judgeBandwidth(rows, explained);
    judgeNominal(rows, explained);
    judgeTogether(rows, explained);
    judgeLatency(rows, explained);
  }

  /// What goes through the host depends on which nodes both devices are near.
  std::vector<Rows> likeOnPath(const Rows &rows, Path path) const {
    if (path != Path::Host)
      return {rows};
    auto nodeOf = [&](int64_t device) {
      return report_.devices[static_cast<size_t>(device)].numaNode;
    };
    std::map<std::pair<int64_t, int64_t>, Rows> ofNodes;
    for (const PairRow *row : rows)
      ofNodes[{nodeOf(row->source), nodeOf(row->destination)}].push_back(row);
    std::vector<Rows> all;
    for (auto &[nodes, like] : ofNodes)
      all.push_back(std::move(like));
    return all;
  }

  /// Of few, the slower directions; but both directions through the host are unlike each other.
  static std::vector<Outlier> unlike(Path path, const std::vector<PairSample> &samples,
                                     double share, double directionShare) {
    if (samples.size() >= kLeastGroup)
      return outliersOf(samples, share);
    return path == Path::Host ? std::vector<Outlier>() : slowerDirections(samples, directionShare);
  }

  /// All, if transfers of one of them by that path are large enough to say something: of who has no
  /// such, they may have taken too long.
  static Rows largeEnough(const Rows &rows, Path path) {
    const bool isLarge =
        llvm::any_of(rows, [&](const PairRow *row) { return hasBandwidth(on(*row, path)); });
    return isLarge ? rows : Rows();
  }

  void judgeBandwidth(const Rows &rows, PairFindings &explained) {
    const double share = limits_.slowShare(rows.front()->link.kind);
    PairFindings slow;
    for (Path path : kAllPaths)
      for (const Rows &like : likeOnPath(largeEnough(rows, path), path))
        for (const Outlier &outlier :
             unlike(path, bandwidthSamples(like, path), share, limits_.directionShare()))
          slow.add(*outlier.row, path, outlier.figure, outlier.expected);
    for (ScopedFindings &scoped : scopesOf(slow, rows, VerdictScope::Class)) {
      for (const PairFinding *finding : scoped.findings)
        explained.add(*finding->row, std::nullopt);
      addSlow(std::move(scoped));
    }
  }

  void addSlow(ScopedFindings scoped) {
    const bool isOfHost = llvm::all_of(scoped.findings, [](const PairFinding *finding) {
      return !rightPath(*finding) && isAsSlowAsHost(*finding->row);
    });
    const PairFinding &first = *scoped.findings.front();
    if (scoped.scope.scope != VerdictScope::Pair)
      return add(VerdictKind::SlowDevice, std::move(scoped.scope), "GB/s",
                 "it is slow with everybody and the others are not, so it is the device, its slot "
                 "or its port");
    if (isOfHost)
      return add(VerdictKind::HostFallback, std::move(scoped.scope), "GB/s",
                 "memory of the other device is reached no faster than memory of the host");
    if (const std::optional<Path> right = rightPath(first))
      return add(slowKind(scoped), std::move(scoped.scope), "GB/s",
                 fmt::format("the same link is right by {}, so it is the way of copying",
                             name(*right).str()));
    const VerdictKind kind = slowKind(scoped);
    add(kind, std::move(scoped.scope), "GB/s",
        kind == VerdictKind::Asymmetric
            ? "the other direction of the same link is right, so it is not its width"
            : "both devices are fast with others, so it is the link between them");
  }

  /// One direction that is slow while the other was measured and is not is a kind of its own.
  VerdictKind slowKind(ScopedFindings &scoped) const {
    Verdict &scope = scoped.scope;
    if (scope.scope != VerdictScope::Pair || scope.bothWays)
      return VerdictKind::SlowPair;
    const PairRow *back =
        table_.row(static_cast<size_t>(scope.destination), static_cast<size_t>(scope.source));
    for (Path path : scope.paths)
      if (const double other = back ? bandwidthOf(on(*back, path)) : 0; other > 0) {
        scope.figure = bandwidthOf(on(*scoped.findings.front()->row, path));
        scope.expected = other;
        return VerdictKind::Asymmetric;
      }
    return VerdictKind::SlowPair;
  }

  // -- What is less than the link should give. --

  void judgeNominal(const Rows &rows, PairFindings &explained) {
    const Rows judged = only(rows, [&](const PairRow &row) {
      return linkPoint(row) && shouldGive(row) > 0 && !explained.has(row);
    });
    PairFindings ofLink, ofHost;
    for (const PairRow *row : judged) {
      const double figure = linkPoint(*row)->GBps;
      if (figure < kNominalShare * shouldGive(*row))
        (isAsSlowAsHost(*row) ? ofHost : ofLink).add(*row, std::nullopt, figure, shouldGive(*row));
    }
    for (ScopedFindings &scoped : scopesOf(ofHost, judged, VerdictScope::Class))
      addBelowNominal(VerdictKind::HostFallback, std::move(scoped), explained,
                      "memory of the other device is reached no faster than memory of the host");
    for (ScopedFindings &scoped : scopesOf(ofLink, judged, VerdictScope::Class)) {
      const PairRow &row = *scoped.findings.front()->row;
      addBelowNominal(VerdictKind::BelowNominal, std::move(scoped), explained,
                      fmt::format("nominal are {} GB/s, of which a healthy link of its class gives "
                                  "{:.0f} %",
                                  figureText(row.link.nominalGBps),
                                  100 * limitsOf(row).efficiency));
    }
  }

  void addBelowNominal(VerdictKind kind, ScopedFindings scoped, PairFindings &explained,
                       std::string cause) {
    for (const PairFinding *finding : scoped.findings)
      explained.add(*finding->row, std::nullopt);
    add(kind, std::move(scoped.scope), "GB/s", std::move(cause));
  }

  // -- What is slow only while others run. --

  /// By the path that was tried first.
  void judgeBridges() {
    for (const LinkCouple &couple : report_.couples) {
      if (!isSlowBeside(couple.one) || !isSlowBeside(couple.other))
        continue;
      addShared(couple.one, couple.path);
      addShared(couple.other, couple.path);
      const auto known = llvm::find_if(verdicts_, [&](const Verdict &verdict) {
        return verdict.kind == VerdictKind::SharedBridge && isSameLink(verdict, couple.one) &&
               isSameLink(*verdict.other, couple.other);
      });
      if (known != verdicts_.end()) {
        known->paths.push_back(couple.path);
        continue;
      }
      Verdict scope;
      scope.source = couple.one.source;
      scope.destination = couple.one.destination;
      scope.bothWays = couple.one.bothWays;
      scope.other = couple.other;
      scope.paths = {couple.path};
      scope.figure = std::min(couple.one.togetherGBps, couple.other.togetherGBps);
      scope.expected = std::min(couple.one.aloneGBps, couple.other.aloneGBps);
      if (const PairRow *row = rowOf(couple.one))
        scope.link = row->link.kind;
      add(VerdictKind::SharedBridge, std::move(scope), "GB/s",
          "each is right while the other one does nothing, and they have no device in common");
    }
  }

  bool isSlowBeside(const CoupledLink &link) const {
    return link.togetherGBps > 0 && link.togetherGBps < limits_.bridgeShare() * link.aloneGBps;
  }
  template <class Link> static bool isSameLink(const Link &one, const CoupledLink &other) {
    return one.source == other.source && one.destination == other.destination;
  }
  const PairRow *rowOf(const CoupledLink &link) const {
    return table_.row(static_cast<size_t>(link.source), static_cast<size_t>(link.destination));
  }
  void addShared(CoupledLink link, Path path) {
    for (const bool isBack : {false, true}) {
      if (isBack)
        std::swap(link.source, link.destination);
      if (const PairRow *row = rowOf(link); row && (!isBack || link.bothWays))
        shared_.add(*row, path);
    }
  }

  void judgeTogether(const Rows &rows, PairFindings &explained) {
    if (limitsOf(*rows.front()).isShared)
      return;
    PairFindings slow;
    for (Path path : kAllPaths)
      if (path != Path::Host) // which all share
        judgeTogetherBy(path, rows, limits_.togetherShare(), explained, slow);
    for (ScopedFindings &scoped : scopesOf(slow, rows, VerdictScope::Class)) {
      for (const PairFinding *finding : scoped.findings)
        explained.add(*finding->row, std::nullopt);
      add(VerdictKind::SlowTogether, std::move(scoped.scope), "GB/s",
          "alone it is right, and links of this class are not shared by pairs");
    }
  }

  void judgeTogetherBy(Path path, const Rows &rows, double least, const PairFindings &explained,
                       PairFindings &slow) const {
    const int64_t bytes = togetherBytes(path);
    if (bytes < kLeastTogetherBytes)
      return;
    std::vector<PairSample> samples;
    for (const PairRow *row : rows)
      if (const double share = shareTogether(*row, path, bytes); share > 0 && !explained.has(*row))
        samples.push_back({row, on(*row, path).togetherGBps, share});
    auto add = [&](const PairRow &row, double figure, double expected) {
      if (!shared_.has(row))
        slow.add(row, path, figure, expected);
    };
    // What NVLinks give together is known; of other links, only how alike they are.
    if (rows.front()->link.kind == LinkClass::NvLink && fillsLink(*rows.front(), bytes))
      for (const PairSample &sample : samples)
        if (sample.goodness() < least)
          add(*sample.row, sample.figure, sample.usual);
    for (const Outlier &outlier : outliersOf(samples, least))
      add(*outlier.row, outlier.figure, outlier.expected);
  }

  /// All pairs run at the largest size that each of them was measured at.
  int64_t togetherBytes(Path path) const {
    int64_t bytes = std::numeric_limits<int64_t>::max();
    for (const PairRow &row : report_.rows)
      if (const PathPoint *point = largestPoint(on(row, path)))
        bytes = std::min(bytes, point->bytes);
    return bytes;
  }
  static double aloneAt(int64_t bytes, const PathReport &path) {
    double rate = 0;
    for (const PathPoint &point : path.points)
      if (point.bytes <= bytes && point.GBps > 0)
        rate = point.GBps;
    return rate;
  }

  /// What a pair alone gives, divided by the pairs that run at its busier end; 0: not known.
  double shareTogether(const PairRow &row, Path path, int64_t bytes) const {
    const double alone = aloneAt(bytes, on(row, path));
    if (on(row, path).togetherGBps <= 0)
      return 0;
    auto runs = [&](size_t source, size_t destination) {
      const PairRow *other = table_.row(source, destination);
      return other && on(*other, path).togetherGBps > 0;
    };
    size_t from = 0, to = 0;
    for (size_t other = 0; other < table_.devices(); ++other) {
      from += runs(static_cast<size_t>(row.source), other);
      to += runs(other, static_cast<size_t>(row.destination));
    }
    return alone / static_cast<double>(std::max<size_t>({from, to, 1}));
  }

  // -- What takes long. --

  /// Half of there and back is of both directions: what is wrong with one explains the other's.
  void judgeLatency(const Rows &rows, PairFindings &explained) {
    auto isExplained = [&](const PairRow &row) {
      const PairRow *back =
          table_.row(static_cast<size_t>(row.destination), static_cast<size_t>(row.source));
      return explained.has(row) || (back && explained.has(*back));
    };
    PairFindings slow;
    const double share = 1 / limits_.latencyTimes();
    for (Path path : kAllPaths)
      for (const Rows &like : likeOnPath(rows, path))
        for (const Outlier &outlier : unlike(path, latencySamples(like, path), share, share))
          if (outlier.figure - outlier.expected >= limits_.latencyUs() &&
              !isExplained(*outlier.row))
            slow.add(*outlier.row, path, outlier.figure, outlier.expected);
    for (ScopedFindings &scoped : scopesOf(slow, rows, VerdictScope::Class))
      add(VerdictKind::Latency, std::move(scoped.scope), "us", causeOfLatency(scoped));
  }

  static std::string causeOfLatency(const ScopedFindings &scoped) {
    const bool isKnown = llvm::all_of(scoped.findings, [](const PairFinding *finding) {
      return llvm::all_of(finding->paths,
                          [&](Path path) { return hasBandwidth(on(*finding->row, path)); });
    });
    return isKnown ? "the bandwidth of large transfers is right"
                   : "nothing is known of large transfers";
  }

  // -- What is joined by less than its like. --

  void judgeNarrowLinks() {
    for (bool isOfCount : {true, false})
      for (size_t kind = 0; kind < kLinkClasses; ++kind) {
        std::map<std::string, std::map<int64_t, double>> ofName;
        for (const PairRow *row : allRows())
          if (row->link.kind == static_cast<LinkClass>(kind))
            for (int64_t device : {row->source, row->destination}) {
              double &most = ofName[report_.devices[static_cast<size_t>(device)].name][device];
              most = std::max(most, isOfCount ? static_cast<double>(row->link.count)
                                              : row->link.nominalGBps);
            }
        for (const auto &[name, ofDevice] : ofName)
          judgeNarrowOf(static_cast<LinkClass>(kind), isOfCount, ofDevice);
      }
  }

  void judgeNarrowOf(LinkClass kind, bool isOfCount, const std::map<int64_t, double> &ofDevice) {
    std::vector<double> all;
    for (const auto &[device, most] : ofDevice)
      all.push_back(most);
    const double usual = medianOf(std::move(all));
    constexpr size_t kLeastDevices = 3;
    constexpr double kSame = 0.97; // of rates, whose last digits may differ
    if (ofDevice.size() < kLeastDevices || usual <= 0)
      return;
    for (const auto &[device, most] : ofDevice) {
      const bool isNamed = llvm::any_of(verdicts_, [&, device = device](const Verdict &verdict) {
        return verdict.kind == VerdictKind::NarrowLink && verdict.device == device;
      });
      if (most >= kSame * usual || most <= 0 || isNamed)
        continue;
      Verdict scope;
      scope.scope = VerdictScope::Device;
      scope.device = device;
      scope.link = kind;
      scope.figure = most;
      scope.expected = usual;
      add(VerdictKind::NarrowLink, std::move(scope), isOfCount ? "NVLinks" : "GB/s of nominal rate",
          isOfCount ? "links are down or were never joined"
                    : "its slot is narrower or older, or lanes were lost");
    }
  }

  /// A device that stands out over several classes of links does so once.
  void mergeDevices() {
    std::vector<Verdict> merged;
    for (Verdict &verdict : verdicts_) {
      auto same = llvm::find_if(merged, [&](const Verdict &other) {
        return verdict.scope == VerdictScope::Device && other.scope == VerdictScope::Device &&
               other.kind == verdict.kind && other.device == verdict.device &&
               other.together == verdict.together;
      });
      if (same == merged.end()) {
        merged.push_back(std::move(verdict));
        continue;
      }
      same->flow = same->flow == verdict.flow ? same->flow : Flow::Both;
      same->paths.insert(same->paths.end(), verdict.paths.begin(), verdict.paths.end());
      llvm::sort(same->paths);
      same->paths.erase(std::unique(same->paths.begin(), same->paths.end()), same->paths.end());
    }
    verdicts_ = std::move(merged);
  }

  const PairReport &report_;
  Limits limits_;
  PairTable table_;
  PairFindings faulty_;
  PairFindings shared_; ///< with another link that they name
  std::vector<Verdict> verdicts_;
};

} // namespace

std::vector<Verdict> judge(const PairReport &report) { return Judge(report).verdicts(); }

std::vector<CoupledLink> linksSlowTogether(const PairReport &report, Path path) {
  return Judge(report).slowTogether(path);
}

std::vector<std::string> remarks(const PairReport &report) {
  struct Shared {
    std::vector<double> together, alone;
  };
  constexpr double kNoticed = 0.8;
  std::map<LinkClass, Shared> shared;
  for (const PairRow &row : report.rows) {
    const std::optional<Path> path = fastestPath(row, kPeerPaths);
    const double together = path ? on(row, *path).togetherGBps : 0;
    if (!limitsOf(row).isShared || together <= 0 || together >= kNoticed * bestBandwidth(row))
      continue;
    shared[row.link.kind].together.push_back(together);
    shared[row.link.kind].alone.push_back(bandwidthOf(on(row, *path)));
  }
  std::vector<std::string> all;
  for (const auto &[kind, of] : shared)
    all.push_back(fmt::format("{} ordered pairs over {} links share them with others by design: "
                              "while all pairs run they have {} GB/s in the median, alone {}",
                              of.together.size(), name(kind).str(),
                              figureText(medianOf(of.together)), figureText(medianOf(of.alone))));
  return all;
}

} // namespace braid
