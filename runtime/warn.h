//===- runtime/warn.h - prints warnings -------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include <cstdio>

namespace braid {

/// Prints "braid: warning: `text`" on standard error immediately. `text` is one line without a
/// newline.
inline void warnOnStderr(const std::string &text) {
  std::fprintf(stderr, "braid: warning: %s\n", printableMessage(text).c_str());
}

} // namespace braid
