//===- runtime/warn.h - prints warnings -------------------------------------------------------===//
#pragma once

#include <string>

namespace braid {

/// Prints "braid: warning: `text`" on standard error immediately. `text` is one line without a
/// newline.
void warnOnStderr(const std::string &text);

} // namespace braid
