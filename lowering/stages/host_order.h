//===- lowering/stages/host_order.h - the order of ranks under order=hierarchical -------------===//
//
// Hosts are numbered relative to the local host: `host` is 0 for the local host, 1 for the next,
// and so on, modulo the number of hosts. Similarly, `step` is the position of a rank on its host
// relative to this rank's local index: 0 is the rank with the same local index.
//
//   far(host)          the rank on `host` with this rank's local index
//   farther(host)      the rank r for which far(host) is this rank
//   block(host, step)  the rank at `step` on `host`
//   near(step)         block(0, step), on the local host
//   nearer(step)       the rank r for which near(step) is this rank
//
// A rank receives block(host, 0) from far(host) over the network. In each step, the rank forwards
// this block to nearer(step), and receives block(host, step) from near(step).
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/scalar.h"
#include "lowering/state.h"

namespace braid {

class HostOrder {
public:
  HostOrder(ScalarContext &scalars, const Stage &stage)
      : scalars_(scalars), ranks_(scalars.constant(stage.steps)),
        hostSize_(scalars.constant(stage.ranksPerHost)) {}

  const Scalar *far(const Scalar *host) const { return shifted(ScalarKind::Add, host); }
  const Scalar *farther(const Scalar *host) const { return shifted(ScalarKind::Sub, host); }
  const Scalar *block(const Scalar *host, const Scalar *step) const;
  const Scalar *near(const Scalar *step) const;
  const Scalar *nearer(const Scalar *step) const;

  /// Returns the local index of this rank.
  const Scalar *number() const { return scalars_.mod(scalars_.rank(), hostSize_); }
  /// Return the local indices of near(step) and nearer(step).
  const Scalar *nearNumber(const Scalar *step) const { return turned(ScalarKind::Add, step); }
  const Scalar *nearerNumber(const Scalar *step) const { return turned(ScalarKind::Sub, step); }
  /// Returns the index of the host of `rank`, where rank 0 is on host 0.
  const Scalar *hostOf(const Scalar *rank) const { return scalars_.div(rank, hostSize_); }

private:
  const Scalar *shifted(ScalarKind direction, const Scalar *host) const;
  const Scalar *turned(ScalarKind direction, const Scalar *step) const;
  /// Returns the first rank on this host.
  const Scalar *first() const { return scalars_.sub(scalars_.rank(), number()); }

  ScalarContext &scalars_;
  const Scalar *ranks_, *hostSize_;
};

} // namespace braid
