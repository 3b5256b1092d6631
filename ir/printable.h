//===- ir/printable.h - texts of others, for a terminal ---------------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace braid {

/// Escapes every byte that is not UTF-8, and every character that is not displayed as itself, so
/// that none moves a terminal's cursor: "\x1b[2J". If there are more than `most` bytes, the first
/// ones are kept, followed by "...".
std::string printable(llvm::StringRef text, size_t most = 300);

} // namespace braid
