//===- backends/cuda/launch_filler.cpp - what of a command batch one launch does --------------===//

#include "backends/cuda/launch_filler.h"

#include "backends/cuda/elements.h"

#include <algorithm>
#include <utility>

namespace braid::cuda {
namespace {

template <class T> bool append(T (&list)[CopyAndSignal::kMost], uint32_t &count, const T &item) {
  if (count == CopyAndSignal::kMost)
    return false;
  list[count++] = item;
  return true;
}

} // namespace

Sum sumOf(const SumArgs &args) {
  return {elementOf(args.dtype),
          elementOf(args.partial),
          args.elements,
          args.count,
          args.stride,
          args.parts,
          args.bias,
          args.biasElements,
          args.dst,
          elementOf(args.result),
          args.keepsParts};
}

bool LaunchFiller::take(const BatchedCommand &step) {
  switch (step.kind) {
  case CommandKind::Sum:
    return takeSum(*step.sum);
  case CommandKind::Await:
    return takeAwait(step);
  case CommandKind::Copy:
    return takeCopy(step);
  default:
    return takeSignal(step);
  }
}

bool LaunchFiller::appendFlag(CopyAndSignalFlag (&list)[kMost], uint32_t &count,
                              const BatchedCommand &step) {
  return count < kMost &&
         append(list, count, {static_cast<uint32_t *>(step.flag), numberOf_(step)});
}

/// Whoever adds waits on a processor until then, as whoever copies does, and only there.
bool LaunchFiller::takeSum(const SumArgs &args) {
  if (!may_.add || !may_.waitAndWork || launch_.sum.elements != 0)
    return false;
  launch_.sum = sumOf(args);
  launch_.addsAlong = part_ == Moves && canAddAlong(launch_);
  if (!launch_.addsAlong && !isForWorkers(launch_.sum, may_.blocks)) {
    launch_.sum = {};
    return false;
  }
  part_ = launch_.addsAlong ? Arrivals : Full;
  return true;
}

bool LaunchFiller::takeAwait(const BatchedCommand &step) {
  if (part_ == Moves && !may_.waitAndWork)
    return false;
  if (part_ < Moves) {
    part_ = Awaits;
    return appendFlag(launch_.awaits, launch_.awaitCount, step);
  }
  part_ = part_ < Giving ? Arrivals : LastCopies;
  return appendFlag(launch_.arrivals, launch_.arrivalCount, step);
}

bool LaunchFiller::takeSignal(const BatchedCommand &step) {
  if (part_ == Awaits && !may_.waitAndWork)
    return false;
  if (part_ == Giving)
    return appendFlag(launch_.second.signals, launch_.second.signalCount, step);
  if (part_ > Moves)
    return false;
  if (part_ == ReadySignals) {
    if (!appendFlag(launch_.readySignals, launch_.readySignalCount, step))
      return false;
    launch_.fencesReadySignals |= step.published == Published::Peers;
    return true;
  }
  part_ = Moves;
  if (!appendFlag(launch_.signals, launch_.signalCount, step))
    return false;
  launch_.fencesMoves |= step.published != Published::Nothing;
  return true;
}

bool LaunchFiller::takeCopy(const BatchedCommand &step) {
  const CopyAndSignalCopy copy{static_cast<char *>(step.dst), static_cast<const char *>(step.src),
                               step.bytes};
  if (part_ == Awaits && !may_.waitAndWork)
    return false;
  if (part_ > Moves)
    return may_.haveCopies && takeCopyBehindSum(step, copy);
  part_ = Moves;
  if (step.bytes == 0)
    return true;
  if ((launch_.copyCount == 1 && !may_.haveCopies) ||
      !append(launch_.copies, launch_.copyCount, copy))
    return false;
  launch_.fencesMoves |= step.published == Published::Peers;
  return true;
}

/// What has been awaited since the sum is awaited before the sum is given, then. To give to this
/// rank alone makes no second shot: its signals are what says that it is over.
bool LaunchFiller::takeCopyBehindSum(const BatchedCommand &step, const CopyAndSignalCopy &copy) {
  CopyAndSignal::SecondShot &second = launch_.second;
  const bool isGiven = may_.give && step.published == Published::Peers && canGive(launch_, copy);
  if ((part_ == Arrivals || part_ == Giving) && isGiven) {
    if (part_ == Arrivals) {
      std::copy_n(launch_.arrivals, launch_.arrivalCount, second.awaits);
      second.awaitCount = std::exchange(launch_.arrivalCount, 0);
      part_ = Giving;
    }
    return append(second.places, second.placeCount, copy.dst);
  }
  if ((part_ != Giving && part_ != LastCopies) || !canCopyLast(launch_, copy))
    return false;
  part_ = LastCopies;
  return copy.bytes == 0 || append(second.copies, second.copyCount, copy);
}

} // namespace braid::cuda
