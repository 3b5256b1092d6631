//===- api/timing/seconds_since.h - how long ago something was --------------------------------===//
#pragma once

#include <chrono>

namespace braid {

/// Seconds by the host's clock.
inline double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace braid
