//===- ir/printable.h - makes untrusted text safe for a terminal ------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace braid {

/// Escapes every byte that is not valid UTF-8, and every character that is not displayed as itself,
/// such as those in "\x1b[2J", so that no text moves the terminal's cursor. Truncates a longer text
/// to its first `most` bytes, followed by "...".
std::string printable(llvm::StringRef text, size_t most = 300);

} // namespace braid
