//===- runtime/warn.h - prints warnings -------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include <cstdio>

namespace braid {

/// Immediately prints "braid: warning: `text`" to standard error. `text` is a single line without a
/// newline.
inline void warnOnStderr(const std::string &text) {
  std::fprintf(stderr, "braid: warning: %s\n", printableMessage(text).c_str());
}

} // namespace braid
