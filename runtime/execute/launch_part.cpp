//===- runtime/execute/launch_part.cpp - in which order one kernel does a command batch -------===//

#include "runtime/execute/launch_part.h"

namespace braid {

LaunchStep stepBehind(LaunchPart part, CommandKind kind, llvm::function_ref<bool()> addsAlong,
                      llvm::function_ref<bool()> gives) {
  switch (kind) {
  case CommandKind::Sum:
    return part == LaunchPart::Moves && addsAlong() ? LaunchStep::SumAlong : LaunchStep::SumAtEnd;
  case CommandKind::Await:
    return LaunchStep::Await;
  case CommandKind::Copy:
    if (part <= LaunchPart::Moves)
      return LaunchStep::Copy;
    return part <= LaunchPart::Giving && gives() ? LaunchStep::Gift : LaunchStep::CopyBehind;
  default:
    return LaunchStep::Signal;
  }
}

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

} // namespace braid
