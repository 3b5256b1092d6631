//===- tests/support/dice.h - reproducible random choices -------------------------------------===//
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace braid::test {

/// Draws random numbers without std::uniform_int_distribution, whose results depend on the library.
class Dice {
public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  bool chance(int64_t percent) { return below(100) < percent; }
  template <class T> T pick(const std::vector<T> &values) {
    return values[static_cast<size_t>(below(static_cast<int64_t>(values.size())))];
  }

private:
  std::mt19937_64 engine_;
};

/// Returns a random divisor of `number`.
inline int64_t divisorOf(int64_t number, Dice &dice) {
  std::vector<int64_t> divisors;
  for (int64_t each = 1; each <= number; ++each)
    if (number % each == 0)
      divisors.push_back(each);
  return dice.pick(divisors);
}

} // namespace braid::test
