//===- runtime/check/alike.cpp - ranks that wait for each other alike -------------------------===//

#include "runtime/check/alike.h"

#include "runtime/check/access.h"

#include <algorithm>

namespace braid::checker {
namespace {

template <class List, class Fn> bool allAlike(const List &a, const List &b, Fn areAlike) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), areAlike);
}

/// Compares ranks with that of the first block which stands for them.
class Comparison {
public:
  Comparison(llvm::ArrayRef<Plan> plans, const Partners &partners, Shift shift)
      : plans_(plans), partners_(partners), shift_(shift) {}

  bool areAlike(size_t period) const {
    for (size_t rank = period; rank < plans_.size(); ++rank)
      if (!isMoved(rank, rank % period))
        return false;
    return true;
  }

private:
  bool isMoved(size_t rank, size_t first) const {
    const Plan &plan = plans_[rank], &other = plans_[first];
    auto isMovedCommand = [&](const Command &a, const Command &b) {
      return a.kind == b.kind && a.stream == b.stream && a.endpoint == b.endpoint &&
             a.event == b.event && haveAlikeOperands(operandsOf(plan, a), operandsOf(other, b));
    };
    auto isSameRelease = [](const PlanRelease &a, const PlanRelease &b) {
      return a.beforeCommand == b.beforeCommand && a.stream == b.stream;
    };
    return plan.streams.size() == other.streams.size() && plan.events == other.events &&
           meetAlike(rank, first) && allAlike(plan.releases, other.releases, isSameRelease) &&
           allAlike(plan.commands, other.commands, isMovedCommand);
  }

  bool meetAlike(size_t rank, size_t first) const {
    const auto by = static_cast<int64_t>(rank - first), ranks = static_cast<int64_t>(plans_.size());
    auto isMovedEndpoint = [&](const Endpoint &a, const Endpoint &b) {
      return a.peer == shifted(shift_, b.peer, by, ranks) && a.isOfMessages == b.isOfMessages &&
             a.isOfMeeting == b.isOfMeeting;
    };
    return partners_[rank] == partners_[first] &&
           allAlike(plans_[rank].endpoints, plans_[first].endpoints, isMovedEndpoint);
  }

  static bool haveAlikeOperands(const Operands &a, const Operands &b) {
    return allAlike(a, b, [](const Operand &x, const Operand &y) {
      return x.isWrite == y.isWrite && x.range.bytes == y.range.bytes && x.isPeers() == y.isPeers();
    });
  }

  llvm::ArrayRef<Plan> plans_;
  const Partners &partners_;
  const Shift shift_;
};

} // namespace

Alike findAlike(llvm::ArrayRef<Plan> plans, const Partners &partners) {
  const size_t ranks = plans.size();
  for (const auto period : {size_t(1), static_cast<size_t>(plans.front().ranksPerHost)})
    for (Shift shift : {Shift::Add, Shift::Xor})
      if (period != 0 && period < ranks && ranks % period == 0 &&
          canShift(shift, static_cast<int64_t>(ranks)) &&
          Comparison(plans, partners, shift).areAlike(period))
        return {static_cast<uint32_t>(period), shift};
  return {static_cast<uint32_t>(ranks)};
}

} // namespace braid::checker
