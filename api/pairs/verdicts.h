//===- api/pairs/verdicts.h - what is wrong between the devices of a machine ------------------===//
//
// A verdict names what stands out, beside what was expected of it. One fault gives one verdict: a
// device that is slow with everybody is named once and not once a pair, a pair that is slow on all
// paths is named once with all of them, and a pair that is slow both ways is named once for both.
//
// A figure stands out if it is far from the median of its like (same class of link, same nominal
// rate, same parts, same path, same size) in two ways: by a share, and by a multiple of what these
// figures scatter. The numbers and their reasons are in verdict_limits.h.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/pair_report.h"

#include "llvm/ADT/StringRef.h"

namespace braid {

/// What stands out. The order is that of verdicts.
enum class VerdictKind : uint8_t {
  Hung,         ///< no end within the deadline
  Crashed,      ///< a process of the pair died
  WrongData,    ///< other bytes arrived than were sent
  HostFallback, ///< goes through the host, or as slowly as if it did
  SlowDevice,   ///< all links of a device are slow beside those of the others
  SlowPair,     ///< slow beside the median of its like, both ways if both were measured
  Asymmetric,   ///< one direction is slower than the other
  BelowNominal, ///< slower than the link should give
  SlowTogether, ///< slower than its share, only when others run
  SharedBridge, ///< two links without a device in common are slow, only when both run
  Latency,      ///< small transfers take longer than those of its like
  NarrowLink,   ///< a device has fewer or narrower links than the others of its name
};
inline constexpr size_t kVerdictKinds = static_cast<size_t>(VerdictKind::NarrowLink) + 1;

enum class VerdictSeverity : uint8_t {
  Fault, ///< do not use it
  Slow,  ///< works, slower than it should
  Note,  ///< worth knowing
};

/// A verdict is about a pair, a device, all pairs of a class of link, or all pairs.
enum class VerdictScope : uint8_t { Pair, Device, Class, All };
/// Which of a device's transfers.
enum class Flow : uint8_t { Both, Sending, Receiving };

struct Verdict {
  VerdictKind kind = VerdictKind::Hung;
  VerdictScope scope = VerdictScope::Pair;
  int64_t source = -1, destination = -1; ///< of a pair
  bool bothWays = false;                 ///< the pair from destination to source, too
  std::optional<CoupledLink> other;      ///< of a bridge: who shares it
  int64_t device = -1;                   ///< of a device
  Flow flow = Flow::Both;                ///< of a device
  LinkClass link = LinkClass::Unknown;
  bool together = false;   ///< a fault only while all pairs run
  std::vector<Path> paths; ///< by value; empty: the link, whichever the path
  double figure = 0;       ///< by the first of the paths, of the pair that is furthest off; 0: none
  double expected = 0;
  std::string unit;               ///< of both: "GB/s", "us", "NVLinks"; empty if there are none
  std::optional<WrongData> wrong; ///< of the first path that brought wrong data
  std::string cause;              ///< as far as it can be known; may be empty
  std::string sentence;           ///< all of it but the cause
};

/// The word: "slow-pair".
llvm::StringRef name(VerdictKind kind);
/// What it means, in a few words: "slow beside the median of its like".
llvm::StringRef meaning(VerdictKind kind);
VerdictSeverity severityOf(VerdictKind kind);
/// "fault", "slow", "note".
llvm::StringRef name(VerdictSeverity severity);
/// "pair", "device", "class", "all".
llvm::StringRef name(VerdictScope scope);
/// "both", "sending", "receiving".
llvm::StringRef name(Flow flow);

/// Whether the verdict is about the transfers of that row.
bool isAbout(const Verdict &verdict, const PairRow &row);

/// Every verdict about a report, faults first, then by kind, scope and device. Deterministic.
std::vector<Verdict> judge(const PairReport &report);

/// The links that by that path are right alone and slow while all pairs run. Where that says
/// nothing yet, as on CPU ranks, these may be more than verdicts name.
std::vector<CoupledLink> linksSlowTogether(const PairReport &report, Path path);

/// What may look like a fault and is none, one sentence each: links that are shared by design and
/// therefore slower while all pairs run.
std::vector<std::string> remarks(const PairReport &report);

} // namespace braid
