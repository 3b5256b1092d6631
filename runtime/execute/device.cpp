//===- runtime/execute/device.cpp - what every device does unless it knows better -------------===//

#include "runtime/execute/device.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/ErrorHandling.h"

namespace braid {

llvm::StringRef name(CopyBy by) {
  return by == CopyBy::Engine ? "engine" : by == CopyBy::Kernel ? "kernel" : "default";
}

llvm::StringRef name(SignalBy by) {
  return by == SignalBy::Memory ? "memory" : by == SignalBy::Kernel ? "kernel" : "default";
}

std::optional<CopyBy> copyByFromName(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<CopyBy>>(name)
      .Case("default", CopyBy::Default)
      .Case("engine", CopyBy::Engine)
      .Case("kernel", CopyBy::Kernel)
      .Default(std::nullopt);
}

std::optional<SignalBy> signalByFromName(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<SignalBy>>(name)
      .Case("default", SignalBy::Default)
      .Case("memory", SignalBy::Memory)
      .Case("kernel", SignalBy::Kernel)
      .Default(std::nullopt);
}

void Device::issueBatch(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps, bool) {
  for (const BatchedCommand &step : steps) {
    tag.command = step.command;
    switch (step.kind) {
    case CommandKind::Signal:
      signal(stream, tag, step.flag, tag.run);
      break;
    case CommandKind::Await:
      await(stream, tag, step.flag, tag.run);
      break;
    case CommandKind::Copy:
      copy(stream, tag, step.dst, step.src, step.bytes);
      break;
    default:
      llvm_unreachable("a batch has signals, awaits and copies");
    }
  }
}

void Device::issueBatchAndSum(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps,
                              bool areDisjoint, const SumArgs &args) {
  issueBatch(stream, tag, steps, areDisjoint);
  tag.command = steps.back().command + 1;
  sum(stream, tag, args);
}

} // namespace braid
