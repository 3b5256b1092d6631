//===- backends/cpu/messages/transfer.cpp - what a group or a collective consists of ----------===//

#include "backends/cpu/messages/transfer.h"

#include "runtime/numeric.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace braid {
namespace {

/// Scratch that a collective takes at most, and what it sums at least at a time.
constexpr int64_t kMostScratch = int64_t(32) << 20, kLeastSlice = int64_t(64) << 10;

char *at(const void *base, int64_t offset) {
  return static_cast<char *>(const_cast<void *>(base)) + offset;
}

/// A collective of `args.team`, seen by `rank`, which is a member.
class CollectiveSteps {
public:
  CollectiveSteps(const CollectiveArgs &args, int64_t rank)
      : args_(args), rank_(rank), members_(static_cast<int64_t>(args.team.size())),
        self_(llvm::find(args.team, rank) - args.team.begin()) {}

  Steps make() {
    switch (args_.kind) {
    case CollectiveKind::AllGather:
    case CollectiveKind::Broadcast:
    case CollectiveKind::AllToAll:
      moveParts();
      break;
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::AllReduce:
    case CollectiveKind::Reduce:
      sumParts();
      break;
    }
    return std::move(made_);
  }

private:
  void moveParts() {
    const bool isToAll = args_.kind == CollectiveKind::AllToAll;
    const bool isFromAll = args_.kind != CollectiveKind::Broadcast;
    const int64_t bytes = isToAll ? args_.srcBytes / members_ : args_.srcBytes;
    Step &step = made_.steps.emplace_back();
    for (int64_t member = 0; member < members_; ++member) {
      const int64_t peer = args_.team[static_cast<size_t>(member)];
      const bool sends = isFromAll || rank_ == args_.root;
      char *sent = at(args_.src, isToAll ? member * bytes : 0);
      char *received = at(args_.dst, isFromAll ? member * bytes : 0);
      if (peer == rank_ && sends)
        step.copies.push_back({received, sent, bytes});
      if (peer != rank_ && sends)
        step.transfers.push_back({Direction::Send, peer, sent, bytes});
      if (peer != rank_ && (isFromAll || peer == args_.root))
        step.transfers.push_back({Direction::Receive, peer, received, bytes});
    }
  }

  /// A rank that gets a sum, or a block, takes the parts of all, slice by slice: so scratch has
  /// a bound.
  void sumParts() {
    const int64_t bytes = args_.dstBytes;
    const int64_t slice =
        std::min(bytes, std::max(kMostScratch / members_ / kAlignment * kAlignment, kLeastSlice));
    for (int64_t done = 0; done == 0 || done < bytes; done += std::max<int64_t>(slice, 1))
      sumSlice(done, std::min(slice, bytes - done));
    made_.scratchBytes = sums() ? members_ * slice : 0;
  }

  void sumSlice(int64_t offset, int64_t bytes) {
    const bool scatters = args_.kind == CollectiveKind::ReduceScatter;
    Step &step = made_.steps.emplace_back();
    for (int64_t member = 0; member < members_; ++member) {
      const int64_t peer = args_.team[static_cast<size_t>(member)];
      char *sent = at(args_.src, offset + (scatters ? member * args_.dstBytes : 0));
      if (peer == rank_ && sums())
        step.reduction = Reduction{args_.reduction.value_or(ReductionOperator::Sum),
                                   args_.dtype,
                                   at(args_.dst, offset),
                                   bytes,
                                   args_.team.size(),
                                   static_cast<size_t>(self_),
                                   sent};
      if (peer == rank_)
        continue;
      if (args_.kind != CollectiveKind::Reduce || peer == args_.root)
        step.transfers.push_back({Direction::Send, peer, sent, bytes});
      if (sums())
        step.transfers.push_back({Direction::Receive, peer, nullptr, bytes, member * bytes});
    }
  }

  bool sums() const { return args_.kind != CollectiveKind::Reduce || rank_ == args_.root; }

  static constexpr int64_t kAlignment = 64;
  const CollectiveArgs &args_;
  const int64_t rank_, members_, self_;
  Steps made_;
};

template <class Number> Number combine(ReductionOperator by, Number a, Number b) {
  switch (by) {
  case ReductionOperator::Sum:
    return a + b;
  case ReductionOperator::Product:
    return a * b;
  case ReductionOperator::Min:
    return std::min(a, b);
  case ReductionOperator::Max:
    return std::max(a, b);
  }
  llvm_unreachable("covered above");
}

} // namespace

Steps stepsOf(const IssuedMessages &issued, int64_t rank) {
  if (issued.collective) {
    CollectiveArgs args = *issued.collective;
    args.team = issued.team;
    return CollectiveSteps(args, rank).make();
  }
  Steps made;
  Step &step = made.steps.emplace_back();
  for (const MessageArgs &message : issued.group)
    step.transfers.push_back(
        {message.direction, message.peer, static_cast<char *>(message.data), message.bytes});
  return made;
}

void reduce(const Reduction &reduction, const char *scratch) {
  std::vector<const char *> parts(reduction.members);
  for (size_t member = 0; member < parts.size(); ++member)
    parts[member] = member == reduction.self
                        ? static_cast<const char *>(reduction.own)
                        : scratch + static_cast<int64_t>(member) * reduction.bytes;
  withElement(reduction.dtype, [&](auto element) {
    using Element = decltype(element);
    auto valueOf = [&](size_t member, int64_t i) {
      return widen(reinterpret_cast<const Element *>(parts[member])[i]);
    };
    auto *dst = static_cast<Element *>(reduction.dst);
    for (int64_t i = 0; i < reduction.bytes / sizeOf(reduction.dtype); ++i) {
      Accumulator<Element> value = valueOf(0, i);
      for (size_t member = 1; member < parts.size(); ++member)
        value = combine(reduction.by, value, valueOf(member, i));
      dst[i] = narrow<Element>(value);
    }
  });
}

} // namespace braid
