//===- ir/printable.h - makes untrusted text safe for a terminal ------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace braid {

/// Escapes invalid UTF-8, control characters and invisible characters, so that no escape sequence
/// such as "\x1b[2J" reaches the terminal. If the result is longer than `most` bytes, truncates it
/// and appends "...".
std::string printable(llvm::StringRef text, size_t most = 300);

} // namespace braid
