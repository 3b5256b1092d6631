//===- ir/printable.h - texts of others, for a terminal ---------------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace braid {

/// With every byte escaped that is no UTF-8, and every character that is not seen as itself, so
/// that none moves a terminal's cursor: "\x1b[2J". Of more than `most` bytes the first are kept,
/// followed by "...".
std::string printable(llvm::StringRef text, size_t most = 300);

} // namespace braid
