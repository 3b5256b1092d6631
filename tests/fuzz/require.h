//===- tests/fuzz/require.h - reports a bug that a fuzz target finds --------------------------===//
#pragma once

#include <cstdlib>

namespace braid {

inline void require(bool holds) {
  if (!holds)
    std::abort();
}

} // namespace braid
