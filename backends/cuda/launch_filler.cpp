//===- backends/cuda/launch_filler.cpp - combines commands of a batch in one launch -----------===//

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

CopyAndSignalCopy copyOf(const BatchedCommand &step) {
  return {static_cast<char *>(step.dst), static_cast<const char *>(step.src), step.bytes};
}

/// Returns the phase in which a kernel that has reached `part` executes `step`; empty if it cannot.
std::optional<LaunchPart> partAfter(LaunchPart part, LaunchStep step) {
  using enum LaunchPart;
  constexpr std::optional<LaunchPart> kNo;
  // Indexed by step and part. Nothing follows Full.
  constexpr std::optional<LaunchPart> kNext[][static_cast<size_t>(Full)] = {
      /*Signal*/ {ReadySignals, Moves, Moves, kNo, Giving, kNo},
      /*Await*/ {Awaits, Awaits, Arrivals, Arrivals, LastCopies, LastCopies},
      /*Copy*/ {Moves, Moves, Moves, kNo, kNo, kNo},
      /*SumAlong*/ {kNo, kNo, Arrivals, kNo, kNo, kNo},
      /*SumAtEnd*/ {Full, Full, Full, Full, kNo, kNo},
      /*Gift*/ {kNo, kNo, kNo, Giving, Giving, kNo},
      /*CopyBehind*/ {kNo, kNo, kNo, kNo, LastCopies, LastCopies},
  };
  return part == Full ? kNo : kNext[static_cast<size_t>(step)][static_cast<size_t>(part)];
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
  const LaunchStep kind = toStep(step);
  const std::optional<LaunchPart> next = partAfter(part_, kind);
  if (!next || !mayGoOn(*next) || !put(step, kind, *next))
    return false;
  part_ = *next;
  return true;
}

/// Returns true if the launch may continue with `next`. Waiting before or after copies occupies the
/// multiprocessors of the copying blocks, so it needs waitAndWork.
bool LaunchFiller::mayGoOn(LaunchPart next) const {
  const bool hasWaited = part_ == LaunchPart::Awaits && next > LaunchPart::Awaits;
  const bool waitsBehind = part_ == LaunchPart::Moves && next > LaunchPart::Moves;
  return may_.waitAndWork || !(hasWaited || waitsBehind);
}

/// A copy within this rank makes no second shot, whose signals define when it is complete.
LaunchStep LaunchFiller::toStep(const BatchedCommand &step) const {
  switch (step.kind) {
  case CommandKind::Sum:
    return part_ == LaunchPart::Moves && canAddAlong(launch_, sumOf(*step.sum))
               ? LaunchStep::SumAlong
               : LaunchStep::SumAtEnd;
  case CommandKind::Await:
    return LaunchStep::Await;
  case CommandKind::Copy:
    if (part_ <= LaunchPart::Moves)
      return LaunchStep::Copy;
    return part_ <= LaunchPart::Giving && may_.give && step.published == Published::Peers &&
                   canGive(launch_, copyOf(step))
               ? LaunchStep::Gift
               : LaunchStep::CopyBehind;
  default:
    return LaunchStep::Signal;
  }
}

bool LaunchFiller::put(const BatchedCommand &step, LaunchStep kind, LaunchPart next) {
  switch (kind) {
  case LaunchStep::Signal:
    return putSignal(step, next);
  case LaunchStep::Await:
    return putAwait(step, next);
  case LaunchStep::Copy:
    return putCopy(step);
  case LaunchStep::SumAlong:
  case LaunchStep::SumAtEnd:
    return putSum(sumOf(*step.sum), kind);
  case LaunchStep::Gift:
    return putGift(step);
  case LaunchStep::CopyBehind:
    return putCopyBehind(step);
  }
  return false;
}

bool LaunchFiller::appendFlag(CopyAndSignalFlag (&list)[kMost], uint32_t &count,
                              const BatchedCommand &step) {
  return count < kMost &&
         append(list, count, {static_cast<uint32_t *>(step.flag), numberOf_(step)});
}

bool LaunchFiller::putSum(const Sum &sum, LaunchStep kind) {
  const bool isAlong = kind == LaunchStep::SumAlong;
  if (!may_.add || !may_.waitAndWork || launch_.sum.elements != 0 ||
      (!isAlong && !isForWorkers(sum, may_.blocks)))
    return false;
  launch_.sum = sum;
  launch_.addsAlong = isAlong;
  return true;
}

bool LaunchFiller::putAwait(const BatchedCommand &step, LaunchPart next) {
  return next == LaunchPart::Awaits ? appendFlag(launch_.awaits, launch_.awaitCount, step)
                                    : appendFlag(launch_.arrivals, launch_.arrivalCount, step);
}

bool LaunchFiller::putSignal(const BatchedCommand &step, LaunchPart next) {
  if (next == LaunchPart::Giving)
    return appendFlag(launch_.second.signals, launch_.second.signalCount, step);
  if (next == LaunchPart::ReadySignals) {
    if (!appendFlag(launch_.readySignals, launch_.readySignalCount, step))
      return false;
    launch_.fencesReadySignals |= step.published == Published::Peers;
    return true;
  }
  if (!appendFlag(launch_.signals, launch_.signalCount, step))
    return false;
  launch_.fencesMoves |= step.published != Published::Nothing;
  return true;
}

bool LaunchFiller::putCopy(const BatchedCommand &step) {
  if (step.bytes == 0)
    return true;
  if ((launch_.copyCount == 1 && !may_.haveCopies) ||
      !append(launch_.copies, launch_.copyCount, copyOf(step)))
    return false;
  launch_.fencesMoves |= step.published == Published::Peers;
  return true;
}

/// Makes awaits after the sum awaits of the second shot, which precede its copies.
bool LaunchFiller::putGift(const BatchedCommand &step) {
  CopyAndSignal::SecondShot &second = launch_.second;
  if (!may_.haveCopies)
    return false;
  if (part_ == LaunchPart::Arrivals) {
    std::copy_n(launch_.arrivals, launch_.arrivalCount, second.awaits);
    second.awaitCount = std::exchange(launch_.arrivalCount, 0);
  }
  return append(second.places, second.placeCount, static_cast<char *>(step.dst));
}

bool LaunchFiller::putCopyBehind(const BatchedCommand &step) {
  CopyAndSignal::SecondShot &second = launch_.second;
  const CopyAndSignalCopy copy = copyOf(step);
  return may_.haveCopies && canCopyLast(launch_, copy) &&
         (copy.bytes == 0 || append(second.copies, second.copyCount, copy));
}

} // namespace braid::cuda
