//===- runtime/job/bootstrap/host_messages.h - what the hosts of a job put into their store ---===//
//
// Texts of decimal numbers, so that a person can read a store. The functions that read them depend
// on bytes only, so that they can be fuzzed.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/job_memory.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <vector>

namespace braid {

/// The parts of a host's ranks in one all-gather, in rank order.
struct GatheredParts {
  uint32_t sequence = 0; ///< number of the all-gather
  uint32_t step = 0;     ///< that all of these ranks have done; 0: they commit nothing
  std::vector<std::string> parts = {};

  std::string encode() const;
  /// BadInput unless it has the parts of that many ranks.
  static Result<GatheredParts> decode(llvm::StringRef text, size_t ranks);
};

std::string encodeCause(const JobCause &cause);
Result<JobCause> decodeCause(llvm::StringRef text, int64_t ranks);

/// A host's sign of life: the first line of a text, whose further lines say what ranks do.
struct HostSign {
  uint64_t count = 0; ///< number of signs so far
  int64_t hosts = 1, ranks = 1;
  bool hasLeft = false; ///< it says nothing more

  std::string encode() const;
  /// Takes it from the front of `text`.
  static Result<HostSign> decode(llvm::StringRef &text);
};

/// Appends a line for each of `ranks`, as `memory` has them; `offsetNs` is added to all times.
void appendSlots(const JobMemory &memory, Ranks ranks, int64_t offsetNs, std::string &text);
/// Writes such lines into `memory`, but for ranks that are not `isTheirs`.
Status applySlots(llvm::StringRef text, JobMemory &memory, int64_t offsetNs,
                  llvm::function_ref<bool(int64_t rank)> isTheirs);

} // namespace braid
