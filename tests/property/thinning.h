//===- tests/property/thinning.h - selects some of all combinations ---------------------------===//
#pragma once

#include <cstdint>
#include <cstdlib>

namespace braid::test {

/// Selects every n-th combination if BRAID_EVERY=n, and otherwise all combinations. Sanitized tests
/// use a selection, because the ordinary tests cover all combinations. If n is coprime to the
/// number of values in each dimension (5 or 7, for example), every value is selected.
class Thinning {
public:
  bool choosesNext() {
    const char *text = std::getenv("BRAID_EVERY");
    const uint64_t every = text ? std::strtoull(text, nullptr, 10) : 1;
    return count_++ % every == 0;
  }

private:
  uint64_t count_ = 0;
};

} // namespace braid::test
