//===- runtime/execute/transfer_mode.h - who copies and who signals ---------------------------===//
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
llvm::StringRef name(CopyBy by);
llvm::StringRef name(SignalBy by);
std::optional<CopyBy> copyByFromName(llvm::StringRef name);
std::optional<SignalBy> signalByFromName(llvm::StringRef name);

struct TransferMode {
  CopyBy copies = CopyBy::Default;
  SignalBy signals = SignalBy::Default;
  bool operator==(const TransferMode &) const = default;
};

} // namespace braid
