//===- api/pairs/pattern.h - what a transfer's bytes are, and where they are not --------------===//
//
// The bytes of a transfer are drawn from its name: pair, size, round and offset. So a byte that
// comes from elsewhere, from another pair, round or place, is wrong with a chance of 255 in 256,
// and a few of them are all but certain. A destination holds the complement of every byte before:
// what was not written is wrong for certain.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/pair_report.h"

namespace braid {

/// Names a transfer.
struct PatternKey {
  int64_t source = 0, destination = 0; ///< devices
  int64_t bytes = 0;
  int64_t round = 0;
};

enum class Drawn : uint8_t {
  Bytes,
  Complement, ///< each byte's
};

/// Writes bytes offset .. offset + bytes of the transfer. `offset` is a multiple of 8.
void drawPattern(const PatternKey &key, Drawn drawn, int64_t offset, char *data, int64_t bytes);

/// The first of these bytes that is not the transfer's. `offset` is a multiple of 8.
std::optional<WrongData> findWrong(const PatternKey &key, int64_t offset, const char *data,
                                   int64_t bytes);

} // namespace braid
