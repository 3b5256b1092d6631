//===- api/pairs/blocks.h - blocks on a device: filled, and compared byte by byte -------------===//
//
// The bytes of blocks are drawn from a seed that is used once in a job, so a byte from another run
// or another place is wrong with a chance of 255 in 256. Before a run the destination holds the
// complement of every byte: what is not written is wrong for certain.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/pair_report.h"
#include "runtime/execute/device.h"

namespace braid {

enum class Drawn : uint8_t { Bytes, Complement };

/// Draws bytes offset .. offset + bytes of the seed's sequence; `offset` is a multiple of 8.
void drawBytes(uint64_t seed, Drawn drawn, int64_t offset, char *data, int64_t bytes);
/// The index of the first byte that differs from that sequence, or `bytes`.
int64_t firstWrong(uint64_t seed, int64_t offset, const char *data, int64_t bytes);

/// Fills memory of a device. Blocks until the device is done.
Status fillBlocks(Device &device, char *base, int64_t bytes, uint64_t seed, Drawn drawn);
/// The first byte that is wrong, with its offset from `base`, or nothing. Blocks, too.
Result<std::optional<WrongData>> compareBlocks(Device &device, const char *base, int64_t bytes,
                                               uint64_t seed);

} // namespace braid
