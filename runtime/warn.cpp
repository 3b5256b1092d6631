//===- runtime/warn.cpp - prints warnings -----------------------------------------------------===//

#include "runtime/warn.h"

#include "api/status.h"

#include <cstdio>

namespace braid {

void warnOnStderr(const std::string &text) {
  std::fprintf(stderr, "braid: warning: %s\n", printableMessage(text).c_str());
}

} // namespace braid
