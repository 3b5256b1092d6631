//===- runtime/warn.h - what a user should know though nothing has failed ---------------------===//
#pragma once

#include <string>

namespace braid {

/// Prints "braid: warning: `text`" on standard error, at once. `text` is one line without its end.
void warnOnStderr(const std::string &text);

} // namespace braid
