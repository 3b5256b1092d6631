//===- lowering/stages/host_order.h - steps of what crosses a network once a host -------------===//
//
// On hosts of L ranks each, a rank numbers the hosts from its own one on. `host` is 0 for that one,
// 1 for the next, and so on in a circle; `step` is 0 for the rank of its own number on a host, 1
// for the next one there, and so on in a circle.
//
//   far(host)          the rank of this rank's number on that host
//   farther(host)      the rank to which this one is that
//   block(host, step)  any rank
//   near(step)         block(0, step), on the own host
//   nearer(step)       the rank to which this one is that
//
// A rank gets block(host, 0) from far(host), over the network, and passes it on to nearer(step),
// from whose near(step) that is; so it gets block(host, step) from near(step).
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

  /// This rank's number on its host.
  const Scalar *number() const { return scalars_.mod(scalars_.rank(), hostSize_); }
  /// The numbers on this host of near(step) and nearer(step).
  const Scalar *nearNumber(const Scalar *step) const { return turned(ScalarKind::Add, step); }
  const Scalar *nearerNumber(const Scalar *step) const { return turned(ScalarKind::Sub, step); }
  /// Counted from rank 0 on.
  const Scalar *hostOf(const Scalar *rank) const { return scalars_.div(rank, hostSize_); }

private:
  const Scalar *shifted(ScalarKind direction, const Scalar *host) const;
  const Scalar *turned(ScalarKind direction, const Scalar *step) const;
  /// The first rank of this host.
  const Scalar *first() const { return scalars_.sub(scalars_.rank(), number()); }

  ScalarContext &scalars_;
  const Scalar *ranks_, *hostSize_;
};

} // namespace braid
