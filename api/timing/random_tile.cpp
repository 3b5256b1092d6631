//===- api/timing/random_tile.cpp - what operands that are timed are filled with --------------===//

#include "api/timing/random_tile.h"

#include "runtime/numeric.h"

#include <cstring>
#include <random>

namespace braid {

std::vector<char> randomTile(DType dtype, size_t elements, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<char> tile(elements * static_cast<size_t>(sizeOf(dtype)));
  for (size_t i = 0; i < elements; ++i) {
    const float value = static_cast<float>(random() >> 40) * 0x1p-23F - 1; // in [-1, 1)
    withElement(dtype, [&](auto element) {
      element = narrow<decltype(element)>(value);
      std::memcpy(tile.data() + i * sizeof element, &element, sizeof element);
    });
  }
  return tile;
}

} // namespace braid
