//===- runtime/plan/collective_parts.cpp - the parts that members of a collective exchange ----===//

#include "runtime/plan/collective_parts.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {

int64_t memberOf(const PlanCollective &collective, int64_t rank) {
  return llvm::find(collective.team, rank) - collective.team.begin();
}

std::vector<CollectivePart> partsOf(const PlanCollective &collective, int64_t rank,
                                    llvm::function_ref<Range(int64_t member)> sent,
                                    llvm::function_ref<Range(int64_t member)> received) {
  const int64_t self = memberOf(collective, rank), members = collective.members();
  const CollectiveRow::Root root = rowOf(collective.kind).root;
  auto gives = [&](int64_t from, int64_t to) {
    if (root == CollectiveRow::Root::Sends)
      return from == collective.root;
    return root == CollectiveRow::Root::None || to == collective.root;
  };
  std::vector<CollectivePart> parts;
  for (int64_t i = 0; i < members; ++i) {
    const int64_t member = (self + i) % members,
                  peer = collective.team[static_cast<size_t>(member)];
    parts.push_back({peer, gives(rank, peer) ? sent(member) : Range{},
                     gives(peer, rank) ? received(member) : Range{}});
  }
  return parts;
}

std::vector<CollectivePart> partsOf(const PlanCollective &collective, int64_t rank) {
  const Range &dst = collective.dst, &src = collective.src;
  const bool isToAll = rowOf(collective.kind).splitsSrc();
  const bool isFromAll = rowOf(collective.kind).splitsDst();
  const int64_t bytes = isToAll ? src.bytes / collective.members() : src.bytes;
  return partsOf(
      collective, rank,
      [&](int64_t member) { return isToAll ? cut(src, member * bytes, bytes) : src; },
      [&](int64_t member) { return isFromAll ? cut(dst, member * bytes, bytes) : dst; });
}

std::vector<CollectivePart> partsToSum(const PlanCollective &collective, int64_t rank,
                                       uint32_t buffer) {
  const bool scatters = rowOf(collective.kind).splitsSrc();
  const int64_t bytes = collective.dst.bytes;
  return partsOf(
      collective, rank,
      [&](int64_t member) {
        return scatters ? cut(collective.src, member * bytes, bytes) : collective.src;
      },
      [&](int64_t member) {
        return Range{buffer, member * bytes, bytes};
      });
}

} // namespace braid
