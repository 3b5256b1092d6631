//===- runtime/warn.cpp - what a user should know though nothing has failed -------------------===//

#include "runtime/warn.h"

#include <cstdio>

namespace braid {

void warnOnStderr(const std::string &text) {
  std::fprintf(stderr, "braid: warning: %s\n", text.c_str());
}

} // namespace braid
