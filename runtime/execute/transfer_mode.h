//===- runtime/execute/transfer_mode.h - engines, signals and memory for transfers ------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace braid {

/// The hardware units that execute copies, and those that execute signals and awaits. The default
/// depends on the device.
enum class CopyBy : uint8_t {
  Default,
  Engine, ///< a copy engine, which runs concurrently with arithmetic
  Kernel, ///< a kernel, which starts faster but occupies multiprocessors
};
enum class SignalBy : uint8_t {
  Default,
  Memory, ///< stream memory operations, which need no multiprocessor
  Kernel, ///< a kernel, which is faster if a multiprocessor is free
};
/// The provider of memory that peers can access.
enum class MemoryFrom : uint8_t {
  Default,
  Ipc, ///< cudaMalloc, opened through CUDA IPC handles
  Vmm, ///< cuMemCreate, opened through file descriptors
};
inline llvm::StringRef name(CopyBy by) {
  constexpr llvm::StringLiteral kNames[] = {"default", "engine", "kernel"};
  return kNames[static_cast<size_t>(by)];
}
inline llvm::StringRef name(SignalBy by) {
  constexpr llvm::StringLiteral kNames[] = {"default", "memory", "kernel"};
  return kNames[static_cast<size_t>(by)];
}
inline llvm::StringRef name(MemoryFrom from) {
  constexpr llvm::StringLiteral kNames[] = {"default", "ipc", "vmm"};
  return kNames[static_cast<size_t>(from)];
}

struct TransferMode {
  CopyBy copies = CopyBy::Default;
  SignalBy signals = SignalBy::Default;
  MemoryFrom memory = MemoryFrom::Default;
  bool operator==(const TransferMode &) const = default;
  /// Returns true if `other` uses the same units for copies and signals.
  bool movesAs(const TransferMode &other) const {
    return copies == other.copies && signals == other.signals;
  }
};

} // namespace braid
