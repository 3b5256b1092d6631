//===- runtime/execute/transfer_mode.h - units that copy and signal, and providers of memory --===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <compare>
#include <cstdint>
#include <optional>

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
  Ipc,            ///< cudaMalloc, opened by handles of CUDA IPC
  Vmm,            ///< cuMemCreate, opened by file descriptors
  Nccl,           ///< ncclMemAlloc, registered as windows of communicators
  NcclRegistered, ///< ncclMemAlloc, registered with communicators; for messages
};
/// NCCL's policy for thread blocks, which take multiprocessors away from GEMMs.
enum class CtaPolicy : uint8_t {
  Default,
  Efficiency, ///< takes fewer where that costs little
  Zero,       ///< takes none for gathers in windows, which copy engines execute
};
llvm::StringRef name(CopyBy by);
llvm::StringRef name(SignalBy by);
llvm::StringRef name(MemoryFrom from);
llvm::StringRef name(CtaPolicy policy);
inline constexpr size_t kMemories = 5;
std::optional<CopyBy> copyByFromName(llvm::StringRef name);
std::optional<SignalBy> signalByFromName(llvm::StringRef name);

/// The thread blocks of the kernels that send messages.
struct Ctas {
  int count = 0; ///< 0: the library's choice
  CtaPolicy policy = CtaPolicy::Default;
  auto operator<=>(const Ctas &) const = default;
};

struct TransferMode {
  CopyBy copies = CopyBy::Default;
  SignalBy signals = SignalBy::Default;
  MemoryFrom memory = MemoryFrom::Default;
  Ctas ctas = {};
  bool operator==(const TransferMode &) const = default;
  /// True if copies and signals are made in the same way.
  bool movesAs(const TransferMode &other) const {
    return copies == other.copies && signals == other.signals;
  }
};

} // namespace braid
