//===- api/pairs/recommend.h - what follows from a report about pairs -------------------------===//
#pragma once

#include "api/pairs/verdicts.h"

namespace braid {

/// The order of devices in a mesh, as a ring in which each sends to the next one.
struct MeshOrder {
  std::vector<int64_t>
      devices;            ///< all but those left out; by number, unless another order is faster
  double slowestGBps = 0; ///< of the ring's hops; 0: some hop cannot be used, or fewer than 2
  double slowestByNumberGBps = 0; ///< of the same devices, in the order of their numbers
  std::string sentence;
};

/// The path of an ordered pair. Another one counts as faster beyond a few percent: the path that is
/// best for most pairs is taken wherever it is as good.
struct PathChoice {
  int64_t source = 0, destination = 0;
  std::optional<Path> small, large; ///< by latency, by bandwidth; nothing: no path works
  double latencyUs = 0, GBps = 0;   ///< of these
};

/// A device that the others had better do without.
struct LeftOut {
  int64_t device = 0;
  double slowestWithGBps = 0, slowestWithoutGBps = 0; ///< the ring's slowest hop
  std::string sentence;
};

struct Recommendations {
  std::vector<LeftOut> leaveOut; ///< in the order in which it was decided
  MeshOrder order;
  std::vector<PathChoice> paths; ///< by source, then destination
  std::vector<std::string> pathSentences;

  /// All sentences: whom to leave out, the order, the paths.
  std::vector<std::string> sentences() const;
};

/// Left out are devices that have a fault of their own, that have faults with so many others that
/// no ring avoids them, or without which the ring's slowest hop is faster by more than one device
/// is worth. Exact for up to 8 devices, else the best that a bounded search finds. Deterministic.
Recommendations recommend(const PairReport &report, const std::vector<Verdict> &verdicts);

} // namespace braid
