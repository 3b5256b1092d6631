//===- tests/fuzz/require.h - reports a bug in a fuzz target ----------------------------------===//
#pragma once

#include <cstdlib>

namespace braid {

inline void require(bool holds) {
  if (!holds)
    std::abort();
}

} // namespace braid
