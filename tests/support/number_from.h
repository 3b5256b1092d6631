//===- tests/support/number_from.h - numbers from environment variables -----------------------===//
#pragma once

#include <cstdint>
#include <cstdlib>

namespace braid::test {

/// Returns the number in an environment variable (for example BRAID_CASES=100), or `otherwise`.
inline uint64_t numberFrom(const char *variable, uint64_t otherwise) {
  const char *text = std::getenv(variable);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

} // namespace braid::test
