//===- runtime/execute/transfer_mode.h - who copies, who signals, and from which memory -------===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>

namespace braid {

/// Who moves the bytes of copies, and who makes and awaits signals. Default is the device's choice.
enum class CopyBy : uint8_t {
  Default,
  Engine, ///< a copy engine, beside the arithmetic
  Kernel, ///< a kernel: starts faster, and takes processors from the arithmetic
};
enum class SignalBy : uint8_t {
  Default,
  Memory, ///< memory operations of the stream: need no processor
  Kernel, ///< a kernel: faster, if a processor is free
};
/// What has memory that peers reach.
enum class MemoryFrom : uint8_t {
  Default,
  Ipc,     ///< cudaMalloc, opened by handles of CUDA IPC
  Vmm,     ///< cuMemCreate, opened by file descriptors
  Nccl,    ///< ncclMemAlloc, registered as windows of a communicator of all ranks
  Nvshmem, ///< the heap of NVSHMEM
};
llvm::StringRef name(CopyBy by);
llvm::StringRef name(SignalBy by);
llvm::StringRef name(MemoryFrom from);
inline constexpr size_t kMemories = 5;
std::optional<CopyBy> copyByFromName(llvm::StringRef name);
std::optional<SignalBy> signalByFromName(llvm::StringRef name);

struct TransferMode {
  CopyBy copies = CopyBy::Default;
  SignalBy signals = SignalBy::Default;
  MemoryFrom memory = MemoryFrom::Default;
  bool operator==(const TransferMode &) const = default;
  /// Copies and signals are made alike.
  bool movesAs(const TransferMode &other) const {
    return copies == other.copies && signals == other.signals;
  }
};

} // namespace braid
