//===- lowering/options.h - what a user chooses about lowering -------------------------------===//
#pragma once

#include "ir/program.h"

#include <string>

namespace braid {

/// How the blocks of a gathered tensor reach every rank.
enum class Schedule : uint8_t {
  Pairwise, ///< step i: take the block of rank + i, give one's own to rank - i
  Hop,      ///< a neighbour ring: every block is forwarded by rank + 1 to rank
  None,     ///< gather everything, then one product
};
llvm::StringRef name(Schedule schedule);
std::optional<Schedule> scheduleFromName(llvm::StringRef name);

struct LoweringOptions {
  Schedule schedule = Schedule::Pairwise;
  Protocol protocol = Protocol::Get;
  /// Streams that steps are dealt out to, besides the caller's. At least 1.
  int64_t streams = 4;
  /// Chunks in all, a multiple of the Stream axis's extent (each slice is then cut into
  /// chunks / extent row ranges, uneven where they do not divide). 0: one chunk a slice.
  int64_t chunks = 0;
  /// Into how many times as many chunks the last step of a pipeline is cut as the others, where
  /// steps move something and are multiplied one by one. At least 1; 1: no more than the others.
  int64_t taper = 1;
};

} // namespace braid
