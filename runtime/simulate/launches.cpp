//===- runtime/simulate/launches.cpp - which commands of a Plan one kernel does ---------------===//

#include "runtime/simulate/launches.h"

#include "runtime/execute/launch_part.h"
#include "runtime/execute/peer_memory.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <limits>

namespace braid::simulator {
namespace {

/// Whether one of them writes what the other one reads or writes. Different endpoints are different
/// memory of peers.
bool doMeet(const Command &a, const Command &b) {
  auto doRangesMeet = [&](const Range &x, const Range &y) {
    return overlap(x, y) && (x.buffer != kPeerBuffer || a.endpoint == b.endpoint);
  };
  return doRangesMeet(a.dst, b.dst) || doRangesMeet(a.dst, b.src) || doRangesMeet(a.src, b.dst);
}

/// Whether all that copies bring are whole parts of the sum, in units that GPUs load at once, so
/// that their kernel adds them on its way.
bool addsAlong(const PlanSum &sum, llvm::ArrayRef<const Command *> copies) {
  constexpr int64_t kUnit = 16;
  const int64_t part = sum.part(0).bytes;
  return part % kUnit == 0 && sum.stride % kUnit == 0 &&
         llvm::all_of(copies, [&](const Command *copy) {
           return copy->dst.bytes == part && overlap(copy->dst, sum.parts) &&
                  (copy->dst.offset - sum.parts.offset) % sum.stride == 0;
         });
}

/// Whether a copy, if it is one of a peer's, is one within the host.
bool isOnHost(const Plan &plan, const Command &command) {
  return command.endpoint == kNone || plan.isSameHost(plan.endpoints[command.endpoint].peer);
}

/// See RankState::together.
uint32_t countTogether(const Plan &plan, llvm::ArrayRef<Command> commands,
                       TransferMode transferMode) {
  constexpr size_t kMostCopies = 16;
  if (commands.front().kind != CommandKind::Copy || transferMode.copies != CopyBy::Kernel)
    return 1;
  llvm::SmallVector<const Command *, kMostCopies> copies;
  uint32_t count = 0;
  for (const Command &command : commands) {
    const bool isCopy = command.kind == CommandKind::Copy;
    const bool isSignal =
        command.kind == CommandKind::Signal && transferMode.signals != SignalBy::Memory;
    if (command.stream != commands.front().stream)
      break;
    if (command.kind == CommandKind::Sum && transferMode.signals != SignalBy::Memory &&
        addsAlong(plan.sums[command.sum], copies))
      return count + 1;
    if (!isCopy && !isSignal)
      break;
    if (isCopy && (copies.size() == kMostCopies ||
                   llvm::any_of(copies, [&](const Command *c) { return doMeet(*c, command); })))
      break;
    if (isCopy)
      copies.push_back(&command);
    ++count;
  }
  return copies.size() > 1 ? count : 1;
}

} // namespace

/// Where nothing is together, all are 1.
std::vector<uint32_t> findTogether(const Plan &plan, TransferMode transferMode) {
  std::vector<uint32_t> together(plan.commands.size(), 1);
  for (size_t i = 0; i < plan.commands.size(); i += together[i])
    together[i] = countTogether(plan, llvm::ArrayRef(plan.commands).drop_front(i), transferMode);
  return together;
}

namespace {

/// Of a sum that GPUs add in the kernel that signals or copies in front of it.
int64_t mostBytesAtEnd(const Plan &plan) {
  std::vector<bool> works(plan.streams.size(), false);
  for (const Command &command : plan.commands)
    if (command.kind == CommandKind::Copy || command.kind == CommandKind::Sum)
      works[command.stream] = true;
  return kMostBytesAtEnd / std::max<int64_t>(llvm::count(works, true), 1);
}

int64_t bytesOfParts(const PlanSum &sum) { return sum.count * sum.part(0).bytes; }

/// What one kernel does of a batch, which follows.
struct BatchKernel {
  size_t count = 0;   ///< of the batch's first commands
  bool isBare = true; ///< signals and awaits alone
  /// The number of its first command that gives what it has added; none: `count`.
  size_t secondShot = std::numeric_limits<size_t>::max();
};

BatchKernel firstKernel(const Plan &plan, llvm::ArrayRef<Command> batch, CopyBy copyBy,
                        int64_t mostBytesAtEnd) {
  LaunchPart part = LaunchPart::ReadySignals;
  BatchKernel kernel;
  llvm::SmallVector<const Command *> copies;
  const PlanSum *added = nullptr;
  for (const Command &command : batch) {
    const LaunchStep step = stepBehind(
        part, command.kind,
        [&] { return !copies.empty() && addsAlong(plan.sums[command.sum], copies); },
        [&] { return added && gives(command, *added); });
    const bool isCopy = command.kind == CommandKind::Copy;
    const bool works = isCopy || command.kind == CommandKind::Sum;
    const std::optional<LaunchPart> next = partAfter(part, step);
    if (!next || (works && copyBy != CopyBy::Kernel) || (isCopy && !isOnHost(plan, command)) ||
        (step == LaunchStep::SumAtEnd && bytesOfParts(plan.sums[command.sum]) > mostBytesAtEnd))
      break;
    if (step == LaunchStep::Gift)
      kernel.secondShot = std::min(kernel.secondShot, kernel.count);
    ++kernel.count;
    kernel.isBare = kernel.isBare && !works;
    if (isCopy)
      copies.push_back(&command);
    if (step == LaunchStep::SumAlong)
      added = &plan.sums[command.sum];
    part = *next;
  }
  kernel.secondShot = std::min(kernel.secondShot, kernel.count);
  return kernel.count > 0 ? kernel : BatchKernel{1, false, 1};
}

/// Calls `visit` with the place of each kernel's first command, and what it does.
template <class Visit> void forEachKernel(const Plan &plan, CopyBy copyBy, Visit visit) {
  const llvm::ArrayRef<Command> commands = plan.commands;
  const int64_t mostBytes = mostBytesAtEnd(plan);
  for (size_t begin = 0, end = 0; begin < commands.size();) {
    end = begin < end ? end : endOfBatch(plan, begin);
    const BatchKernel kernel =
        firstKernel(plan, commands.slice(begin, end - begin), copyBy, mostBytes);
    visit(begin, kernel);
    begin += kernel.count;
  }
}

bool doesSignal(const Command &command) {
  return command.kind == CommandKind::Signal || command.kind == CommandKind::Await;
}

/// Of signals and awaits, those that copies by engines alone are around, on their stream: chains of
/// these were measured as they are.
std::vector<bool> findAmongCopies(const Plan &plan, CopyBy copyBy) {
  std::vector<std::vector<size_t>> lanes(plan.streams.size());
  for (size_t i = 0; i < plan.commands.size(); ++i)
    if (const CommandKind kind = plan.commands[i].kind;
        kind != CommandKind::Record && kind != CommandKind::WaitEvent)
      lanes[plan.commands[i].stream].push_back(i);
  std::vector<bool> found(plan.commands.size(), false);
  for (llvm::ArrayRef<size_t> lane : lanes) {
    const auto isCopy = [&](size_t place) {
      return copyBy != CopyBy::Kernel && place < lane.size() &&
             plan.commands[lane[place]].kind == CommandKind::Copy;
    };
    for (size_t begin = 0, end = 0; begin < lane.size(); begin = end + 1) {
      end = begin;
      while (end < lane.size() && doesSignal(plan.commands[lane[end]]))
        ++end;
      const bool isAmong = begin > 0 && isCopy(begin - 1) && isCopy(end);
      for (size_t command : lane.slice(begin, end - begin))
        found[command] = isAmong;
    }
  }
  return found;
}

/// Of signals and awaits by kernels, the first of each kernel that does nothing else.
std::vector<bool> findBareKernels(const Plan &plan, CopyBy copyBy) {
  std::vector<bool> found(plan.commands.size(), false);
  forEachKernel(plan, copyBy, [&](size_t begin, const BatchKernel &kernel) {
    found[begin] = kernel.isBare && doesSignal(plan.commands[begin]);
  });
  return found;
}

} // namespace

std::vector<bool> findLaunches(const Plan &plan, TransferMode transferMode) {
  const bool isByMemory = transferMode.signals == SignalBy::Memory;
  std::vector<bool> launches(plan.commands.size(), false);
  if (!isByMemory)
    launches = findBareKernels(plan, transferMode.copies);
  const std::vector<bool> areAmongCopies = findAmongCopies(plan, transferMode.copies);
  for (size_t i = 0; i < launches.size(); ++i)
    launches[i] = !areAmongCopies[i] && (isByMemory ? doesSignal(plan.commands[i]) : launches[i]);
  return launches;
}

std::vector<bool> findGoingOn(const Plan &plan, TransferMode transferMode) {
  std::vector<bool> found(plan.commands.size(), false);
  if (transferMode.copies != CopyBy::Kernel || transferMode.signals == SignalBy::Memory)
    return found;
  forEachKernel(plan, transferMode.copies, [&](size_t begin, const BatchKernel &kernel) {
    for (size_t i = begin + kernel.secondShot; i < begin + kernel.count; ++i)
      found[i] = plan.commands[i].kind == CommandKind::Copy;
  });
  return found;
}

} // namespace braid::simulator
