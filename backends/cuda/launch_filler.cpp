//===- backends/cuda/launch_filler.cpp - combines commands of a batch into one launch ---------===//

#include "backends/cuda/launch_filler.h"

#include "backends/cuda/elements.h"

#include <algorithm>
#include <utility>

namespace braid::cuda {

template <class T>
static bool append(T (&list)[CopyAndSignal::kMost], uint32_t &count, const T &item) {
  if (count == CopyAndSignal::kMost)
    return false;
  list[count++] = item;
  return true;
}

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
  case CommandKind::Await:
    return takeAwait(step);
  case CommandKind::Copy:
    return takeCopy(step);
  case CommandKind::Sum:
    return takeSum(sumOf(*step.sum));
  default:
    return takeSignal(step);
  }
}

/// Enters phase `next`, or returns false if a new launch is needed. A wait before or after copies
/// occupies the multiprocessors of the copying blocks, and therefore requires waitAndWork.
bool LaunchFiller::enter(Phase next) {
  const bool hasWaited = phase_ == Phase::Awaits && next > Phase::Awaits;
  const bool waitsAfterwards = phase_ == Phase::Moves && next > Phase::Moves;
  if (!may_.waitAndWork && (hasWaited || waitsAfterwards))
    return false;
  phase_ = next;
  return true;
}

bool LaunchFiller::appendFlag(CopyAndSignalFlag (&list)[kMost], uint32_t &count,
                              const BatchedCommand &step) {
  return count < kMost &&
         append(list, count, {static_cast<uint32_t *>(step.flag), numberOf_(step)});
}

bool LaunchFiller::takeSignal(const BatchedCommand &step) {
  switch (phase_) {
  case Phase::ReadySignals:
    launch_.fencesReadySignals |= step.published == Published::Peers;
    return appendFlag(launch_.readySignals, launch_.readySignalCount, step);
  case Phase::Awaits:
  case Phase::Moves:
    if (!enter(Phase::Moves))
      return false;
    launch_.fencesMoves |= step.published != Published::Nothing;
    return appendFlag(launch_.signals, launch_.signalCount, step);
  case Phase::Giving:
    return appendFlag(launch_.second.signals, launch_.second.signalCount, step);
  default:
    return false;
  }
}

bool LaunchFiller::takeAwait(const BatchedCommand &step) {
  if (phase_ <= Phase::Awaits)
    return enter(Phase::Awaits) && appendFlag(launch_.awaits, launch_.awaitCount, step);
  return enter(phase_ <= Phase::Arrivals ? Phase::Arrivals : Phase::LastCopies) &&
         appendFlag(launch_.arrivals, launch_.arrivalCount, step);
}

/// Only copies to peers can be part of a second shot, because its end is marked by signals to
/// peers.
bool LaunchFiller::takeCopy(const BatchedCommand &step) {
  const CopyAndSignalCopy copy = {static_cast<char *>(step.dst),
                                  static_cast<const char *>(step.src), step.bytes};
  if (phase_ > Phase::Moves) {
    const bool isGift = phase_ <= Phase::Giving && may_.give &&
                        step.published == Published::Peers && canGive(launch_, copy);
    return isGift ? takeGift(step.dst) : takeLastCopy(copy);
  }
  if (!enter(Phase::Moves))
    return false;
  if (step.bytes == 0)
    return true;
  launch_.fencesMoves |= step.published == Published::Peers;
  return (launch_.copyCount != 1 || may_.haveCopies) &&
         append(launch_.copies, launch_.copyCount, copy);
}

bool LaunchFiller::takeSum(const Sum &sum) {
  if (phase_ != Phase::Moves || !canAddAlong(launch_, sum) || !enter(Phase::Arrivals))
    return false;
  launch_.sum = sum;
  return true;
}

/// Adds a copy to the second shot, and moves the awaits that follow the sum into the second shot.
bool LaunchFiller::takeGift(void *place) {
  CopyAndSignal::SecondShot &second = launch_.second;
  if (!may_.haveCopies)
    return false;
  if (phase_ == Phase::Arrivals) {
    std::copy_n(launch_.arrivals, launch_.arrivalCount, second.awaits);
    second.awaitCount = std::exchange(launch_.arrivalCount, 0);
  }
  return enter(Phase::Giving) &&
         append(second.places, second.placeCount, static_cast<char *>(place));
}

bool LaunchFiller::takeLastCopy(const CopyAndSignalCopy &copy) {
  CopyAndSignal::SecondShot &second = launch_.second;
  return phase_ >= Phase::Giving && may_.haveCopies && canCopyLast(launch_, copy) &&
         enter(Phase::LastCopies) &&
         (copy.bytes == 0 || append(second.copies, second.copyCount, copy));
}

} // namespace braid::cuda
