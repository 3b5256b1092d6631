//===- tests/fuzz/require.h - what a fuzz target calls a bug ----------------------------------===//
#pragma once

#include <cstdlib>

namespace braid {

inline void require(bool holds) {
  if (!holds)
    std::abort();
}

} // namespace braid
