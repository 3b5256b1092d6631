//===- runtime/execute/transfer_mode.cpp - engines, signals and memory for transfers ----------===//

#include "runtime/execute/transfer_mode.h"

namespace braid {

namespace {

// Indexed by enum value.
constexpr const char *kCopyBy[] = {"default", "engine", "kernel"};
constexpr const char *kSignalBy[] = {"default", "memory", "kernel"};
constexpr const char *kMemoryFrom[] = {"default", "ipc", "vmm"};

} // namespace

llvm::StringRef name(CopyBy by) { return kCopyBy[static_cast<size_t>(by)]; }
llvm::StringRef name(SignalBy by) { return kSignalBy[static_cast<size_t>(by)]; }
llvm::StringRef name(MemoryFrom from) { return kMemoryFrom[static_cast<size_t>(from)]; }

} // namespace braid
