//===- lowering/stages/host_order.cpp - the order of ranks under order=hierarchical -----------===//

#include "lowering/stages/host_order.h"

namespace braid {

const Scalar *HostOrder::shifted(ScalarKind direction, const Scalar *host) const {
  const Scalar *distance = scalars_.mul(host, hostSize_);
  return scalars_.mod(scalars_.binary(direction, scalars_.rank(), distance), ranks_);
}

const Scalar *HostOrder::turned(ScalarKind direction, const Scalar *step) const {
  return scalars_.mod(scalars_.binary(direction, scalars_.rank(), step), hostSize_);
}

const Scalar *HostOrder::block(const Scalar *host, const Scalar *step) const {
  const Scalar *begin = scalars_.add(first(), scalars_.mul(host, hostSize_));
  return scalars_.add(scalars_.mod(begin, ranks_), nearNumber(step));
}

const Scalar *HostOrder::near(const Scalar *step) const {
  return scalars_.add(first(), nearNumber(step));
}

const Scalar *HostOrder::nearer(const Scalar *step) const {
  return scalars_.add(first(), nearerNumber(step));
}

} // namespace braid
