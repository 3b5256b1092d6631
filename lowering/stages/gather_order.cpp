//===- lowering/stages/gather_order.cpp - the source of each step's block in a gather ---------===//

#include "lowering/stages/gather_order.h"

namespace braid {

GatherOrder::GatherOrder(ScalarContext &scalars, schedule::Order order, int64_t ranks)
    : scalars_(scalars), ranks_(ranks) {
  if (order == schedule::Order::Xor)
    unit_ = ranks & -ranks;
}

/// Returns source(step) if `direction` is Add, and target(step) if it is Sub. In the steps in which
/// the ranks of a group exchange blocks in xor order, both are the same rank.
const Scalar *GatherOrder::partner(const Scalar *step, ScalarKind direction) const {
  const Scalar *rank = scalars_.rank(), *unit = scalars_.constant(unit_);
  if (unit_ == ranks_)
    return scalars_.bitXor(rank, step);
  if (unit_ == 1)
    return scalars_.mod(scalars_.binary(direction, rank, step), scalars_.constant(ranks_));
  const Scalar *group =
      scalars_.mod(scalars_.binary(direction, scalars_.div(rank, unit), scalars_.div(step, unit)),
                   scalars_.constant(ranks_ / unit_));
  const Scalar *member = scalars_.bitXor(scalars_.mod(rank, unit), scalars_.mod(step, unit));
  return scalars_.add(scalars_.mul(group, unit), member);
}

std::vector<GatherOrder::Run> GatherOrder::runs(bool halvesLast) const {
  std::vector<Run> all;
  // Adds a run of `size` steps whose blocks start at block `group` * `size`.
  auto add = [&](int64_t begin, int64_t size, const Scalar *group) {
    all.push_back({begin, begin + size, scalars_.mul(group, scalars_.constant(size))});
  };
  const Scalar *rank = scalars_.rank();
  for (int64_t size = 1; size < unit_; size *= 2)
    add(size, size,
        scalars_.div(scalars_.bitXor(rank, scalars_.constant(size)), scalars_.constant(size)));
  for (int64_t group = 1; group < ranks_ / unit_; ++group) {
    const Scalar *mine = scalars_.div(rank, scalars_.constant(unit_));
    add(group * unit_, unit_,
        scalars_.mod(scalars_.add(mine, scalars_.constant(group)),
                     scalars_.constant(ranks_ / unit_)));
  }
  if (halvesLast && !all.empty())
    halve(all);
  return all;
}

/// The blocks of each half of a run are also contiguous: they start at the block of the half's
/// first step, rounded down to a multiple of the half's size.
void GatherOrder::halve(std::vector<Run> &runs) const {
  const int64_t begin = runs.back().begin, end = runs.back().end, half = (end - begin) / 2;
  if (half == 0)
    return;
  runs.pop_back();
  const Scalar *size = scalars_.constant(half);
  for (int64_t first : {begin, begin + half})
    runs.push_back({first, first + half,
                    scalars_.mul(scalars_.div(source(scalars_.constant(first)), size), size)});
}

} // namespace braid
