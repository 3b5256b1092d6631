//===- runtime/execute/transfer_mode.cpp - who copies, who signals, from where ----------------===//

#include "runtime/execute/transfer_mode.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {

namespace {

// Indexed by the values of the enums.
constexpr const char *kCopyBy[] = {"default", "engine", "kernel"};
constexpr const char *kSignalBy[] = {"default", "memory", "kernel"};
constexpr const char *kMemoryFrom[] = {"default", "ipc", "vmm", "nccl", "nccl-registered"};
constexpr const char *kCtaPolicy[] = {"default", "efficiency", "zero"};

template <class Enum, size_t N>
std::optional<Enum> fromName(const char *const (&names)[N], llvm::StringRef name) {
  const auto *found = llvm::find(names, name);
  return found == std::end(names) ? std::nullopt : std::optional(static_cast<Enum>(found - names));
}

} // namespace

llvm::StringRef name(CopyBy by) { return kCopyBy[static_cast<size_t>(by)]; }
llvm::StringRef name(SignalBy by) { return kSignalBy[static_cast<size_t>(by)]; }
llvm::StringRef name(MemoryFrom from) { return kMemoryFrom[static_cast<size_t>(from)]; }
llvm::StringRef name(CtaPolicy policy) { return kCtaPolicy[static_cast<size_t>(policy)]; }
std::optional<CopyBy> copyByFromName(llvm::StringRef name) {
  return fromName<CopyBy>(kCopyBy, name);
}
std::optional<SignalBy> signalByFromName(llvm::StringRef name) {
  return fromName<SignalBy>(kSignalBy, name);
}

} // namespace braid
