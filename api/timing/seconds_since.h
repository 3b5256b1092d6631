//===- api/timing/seconds_since.h - elapsed time ----------------------------------------------===//
#pragma once

#include <chrono>

namespace braid {

inline double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace braid
