//===- lowering/options.h - what a user chooses about lowering -------------------------------===//
#pragma once

#include "ir/program.h"

#include "llvm/ADT/ArrayRef.h"

#include <string>

namespace braid {

/// How the blocks of a gathered tensor reach every rank.
enum class Schedule : uint8_t {
  Pairwise, ///< step i: take the block of rank + i, give one's own to rank - i
  Hop,      ///< a neighbour ring: every block is forwarded by rank + 1 to rank
  None,     ///< gather everything, then one product
  Burst,    ///< as pairwise, but all transfers are posted at once, in one group
  Fused,    ///< as none, but all transfers are posted at once, on the caller's stream
  Doubling, ///< each product takes all neighbouring blocks that came since, twice as many as before
};
llvm::StringRef name(Schedule schedule);
std::optional<Schedule> scheduleFromName(llvm::StringRef name);
/// All of them, for messages and help.
llvm::ArrayRef<Schedule> allSchedules();
/// True if a gathered operand is multiplied as a whole, when everything has arrived.
bool multipliesWhole(Schedule schedule);
/// True if a stage's transfers are posted together.
bool postsTogether(Schedule schedule);

/// Which streams the transfers of `pairwise` are on. Those of `doubling` are Shared.
enum class Transfers : uint8_t {
  Each,   ///< each on the stream of its product
  Shared, ///< copies on one, one after the other, promises on another; products on the rest
};
llvm::StringRef name(Transfers transfers);
std::optional<Transfers> transfersFromName(llvm::StringRef name);

struct LoweringOptions {
  Schedule schedule = Schedule::Pairwise;
  Protocol protocol = Protocol::Get;
  /// Streams that steps are dealt out to, besides the caller's. At least 1.
  int64_t streams = 4;
  /// Chunks in all, a multiple of the Stream axis's extent (each slice is then cut into
  /// chunks / extent row ranges, uneven where they do not divide). 0: one chunk a slice.
  int64_t chunks = 0;
  /// Into how many times as many chunks the last step of a pipeline is cut as the others, where
  /// steps move something and are multiplied one by one. Under `doubling`, from 2 on, the last
  /// product is cut in two if it is of more than one block. At least 1; 1: no more than the others.
  int64_t taper = 1;
  /// Of `doubling` on a power of two of ranks: how many rows of a product's tiles occupy the device
  /// once. Each product but the last takes a multiple of it, as far as it can, and leaves its other
  /// rows to the next. 0: every product takes the blocks that are here.
  int64_t waveRows = 0;
  /// Of `pairwise`. Shared takes two of the streams, or one if there are two; with one stream there
  /// is nothing to choose.
  Transfers transfers = Transfers::Each;
};

/// Of `doubling`: whether half of the last product need not wait for the last blocks.
bool halvesLastProduct(const LoweringOptions &options);

} // namespace braid
