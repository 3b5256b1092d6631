//===- runtime/execute/transfer_mode.h - units that copy and signal, and providers of memory --===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace braid {

/// The unit that copies, and the unit that signals and awaits. Default: the device chooses.
enum class CopyBy : uint8_t {
  Default,
  Engine, ///< a copy engine, concurrently with arithmetic
  Kernel, ///< a kernel: starts faster, but takes multiprocessors from arithmetic
};
enum class SignalBy : uint8_t {
  Default,
  Memory, ///< memory operations of the stream: need no multiprocessor
  Kernel, ///< a kernel: faster, if a multiprocessor is free
};
/// The provider of memory that peers can access.
enum class MemoryFrom : uint8_t {
  Default,
  Ipc, ///< cudaMalloc, opened by handles of CUDA IPC
  Vmm, ///< cuMemCreate, opened by file descriptors
};
llvm::StringRef name(CopyBy by);
llvm::StringRef name(SignalBy by);
llvm::StringRef name(MemoryFrom from);

struct TransferMode {
  CopyBy copies = CopyBy::Default;
  SignalBy signals = SignalBy::Default;
  MemoryFrom memory = MemoryFrom::Default;
  bool operator==(const TransferMode &) const = default;
  /// True if copies and signals are made in the same way.
  bool movesAs(const TransferMode &other) const {
    return copies == other.copies && signals == other.signals;
  }
};

} // namespace braid
