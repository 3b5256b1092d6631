//===- runtime/execute/device.cpp - what every device does unless it knows better -------------===//

#include "runtime/execute/device.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

namespace braid {

namespace {

// By their values.
constexpr const char *kCopyBy[] = {"default", "engine", "kernel"};
constexpr const char *kSignalBy[] = {"default", "memory", "kernel"};

template <class Enum, size_t N>
std::optional<Enum> fromName(const char *const (&names)[N], llvm::StringRef name) {
  const auto *found = llvm::find(names, name);
  return found == std::end(names) ? std::nullopt : std::optional(static_cast<Enum>(found - names));
}

} // namespace

llvm::StringRef name(CopyBy by) { return kCopyBy[static_cast<size_t>(by)]; }
llvm::StringRef name(SignalBy by) { return kSignalBy[static_cast<size_t>(by)]; }
std::optional<CopyBy> copyByFromName(llvm::StringRef name) {
  return fromName<CopyBy>(kCopyBy, name);
}
std::optional<SignalBy> signalByFromName(llvm::StringRef name) {
  return fromName<SignalBy>(kSignalBy, name);
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

} // namespace braid
