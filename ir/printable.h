//===- ir/printable.h - makes untrusted text safe for a terminal ------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace braid {

/// Escapes every byte that is not UTF-8, and every character that is not displayed as itself, so
/// that none moves a terminal's cursor: "\x1b[2J". Keeps the first `most` bytes of a longer text,
/// followed by "...".
std::string printable(llvm::StringRef text, size_t most = 300);

} // namespace braid
