//===- runtime/simulate/kernels.cpp - which commands of a Plan one kernel does ----------------===//

#include "runtime/simulate/kernels.h"

#include "runtime/execute/peer_memory.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace braid::simulator {
namespace {

/// Whether one of two copies writes what the other one reads or writes. Different endpoints are
/// different memory of peers.
bool conflict(const Command &a, const Command &b) {
  const auto meet = [&](const Range &x, const Range &y) {
    return overlap(x, y) && (x.buffer != kPeerBuffer || a.endpoint == b.endpoint);
  };
  return meet(a.dst, b.dst) || meet(a.dst, b.src) || meet(a.src, b.dst);
}

/// Whether each copy brings a whole part of the sum, in units that GPUs load at once, so that their
/// kernel adds the parts on the way.
bool addsOnTheWay(const PlanSum &sum, llvm::ArrayRef<const Command *> copies) {
  constexpr int64_t kUnit = 16;
  const int64_t part = sum.part(0).bytes;
  return part % kUnit == 0 && sum.stride % kUnit == 0 &&
         llvm::all_of(copies, [&](const Command *copy) {
           return copy->dst.bytes == part && overlap(copy->dst, sum.parts) &&
                  (copy->dst.offset - sum.parts.offset) % sum.stride == 0;
         });
}

/// The first command is a copy by a kernel; returns how many of the commands that kernel does.
uint32_t countTogether(const Plan &plan, llvm::ArrayRef<Command> commands, SignalBy signals) {
  constexpr size_t kMostCopies = 16;
  llvm::SmallVector<const Command *, kMostCopies> copies;
  uint32_t count = 0;
  for (const Command &command : commands) {
    const bool canSignal = signals != SignalBy::Memory;
    if (command.kind == CommandKind::Sum && canSignal &&
        addsOnTheWay(plan.sums[command.sum], copies))
      return count + 1;
    if (command.kind == CommandKind::Copy) {
      if (copies.size() == kMostCopies ||
          llvm::any_of(copies, [&](const Command *copy) { return conflict(*copy, command); }))
        break;
      copies.push_back(&command);
    } else if (command.kind != CommandKind::Signal || !canSignal) {
      break;
    }
    ++count;
  }
  return copies.size() > 1 ? count : 1;
}

bool isSignalOrAwait(const Command &command) {
  return command.kind == CommandKind::Signal || command.kind == CommandKind::Await;
}

/// Commands that follow one another on a stream and are issued at once (endOfBatch()).
class Batch {
public:
  Batch(const Plan &plan, size_t begin, TransferMode mode, Kernels &kernels)
      : plan_(plan), begin_(begin), end_(endOfBatch(plan, begin)), mode_(mode), kernels_(kernels) {}

  size_t find() {
    const bool byKernel = mode_.copies == CopyBy::Kernel;
    for (size_t i = begin_; byKernel && i < end_; i += kernels_.together[i])
      if (plan_.commands[i].kind == CommandKind::Copy)
        kernels_.together[i] =
            countTogether(plan_, llvm::ArrayRef(plan_.commands).slice(i, end_ - i), mode_.signals);
    if (mode_.signals == SignalBy::Memory)
      findMemoryOperations();
    else
      findSignalKernels();
    return end_;
  }

private:
  bool has(CommandKind kind) const {
    return llvm::any_of(llvm::ArrayRef(plan_.commands).slice(begin_, end_ - begin_),
                        [&](const Command &command) { return command.kind == kind; });
  }

  /// The times of copies by engines include the signals and awaits beside them.
  void findMemoryOperations() {
    if (has(CommandKind::Copy) && mode_.copies != CopyBy::Kernel)
      return;
    for (size_t i = begin_; i < end_; ++i)
      kernels_.launches[i] = isSignalOrAwait(plan_.commands[i]);
  }

  /// A kernel that adds what it has copied goes on with the copies after the sum.
  void findSignalKernels() {
    if (!has(CommandKind::Copy) && !has(CommandKind::Sum))
      kernels_.launches[begin_] = isSignalOrAwait(plan_.commands[begin_]);
    bool hasAdded = false;
    for (size_t i = begin_; i < end_; i += kernels_.together[i]) {
      const size_t last = i + kernels_.together[i] - 1;
      for (size_t each = i; hasAdded && each <= last; ++each)
        if (plan_.commands[each].kind == CommandKind::Copy)
          kernels_.launches[each] = -1;
      hasAdded |= last > i && plan_.commands[last].kind == CommandKind::Sum;
    }
  }

  const Plan &plan_;
  const size_t begin_, end_;
  const TransferMode mode_;
  Kernels &kernels_;
};

} // namespace

Kernels findKernels(const Plan &plan, TransferMode transferMode) {
  Kernels kernels{std::vector<uint32_t>(plan.commands.size(), 1),
                  std::vector<int8_t>(plan.commands.size(), 0)};
  for (size_t i = 0; i < plan.commands.size();)
    i = Batch(plan, i, transferMode, kernels).find();
  return kernels;
}

} // namespace braid::simulator
