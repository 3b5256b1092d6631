//===- tests/property/thinning.h - only some of all combinations ------------------------------===//
#pragma once

#include <cstdint>
#include <cstdlib>

namespace braid::test {

/// Chooses every n-th combination that it is asked about, where BRAID_EVERY=n; else all of them.
/// For the copies under sanitizers: every combination's result is compared without them. An n that
/// shares no factor with the numbers of values, such as 5 or 7, gives every value its turn.
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
