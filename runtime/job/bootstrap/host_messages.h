//===- runtime/job/bootstrap/host_messages.h - what the hosts of a job put into their store ---===//
//
// The functions that read these texts depend on bytes only, so that they can be fuzzed.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/job_memory.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <vector>

namespace braid {

/// The parts of one all-gather, in rank order.
struct GatheredParts {
  uint32_t sequence = 0;
  uint32_t step = 0;   ///< that all of them have done; 0: they commit nothing
  uint64_t sentNs = 0; ///< by the clock of the host that puts them into the store
  std::vector<std::string> parts = {};

  std::string encode() const;
  /// BadInput unless it has the parts of that many ranks.
  static Result<GatheredParts> decode(llvm::StringRef text, size_t ranks);
};

std::string encodeCause(const JobCause &cause);
Result<JobCause> decodeCause(llvm::StringRef text, int64_t ranks);

/// A host's sign of life, which begins the text; what its ranks do follows.
struct HostSign {
  uint64_t count = 0; ///< number of signs so far
  int64_t hosts = 1, ranks = 1;
  bool hasLeft = false; ///< it says nothing more

  std::string encode() const;
  /// Takes it from the front of `text`.
  static Result<HostSign> decode(llvm::StringRef &text);
};

/// Appends what ranks `first` to `first + count - 1` do, as `memory` has it; `offsetNs` is added to
/// all times.
void appendSlots(const JobMemory &memory, int64_t first, int64_t count, int64_t offsetNs,
                 std::string &text);
/// Writes into `memory` what such a text says of ranks for which `isTheirs`.
Status applySlots(llvm::StringRef text, JobMemory &memory, int64_t offsetNs,
                  llvm::function_ref<bool(int64_t rank)> isTheirs);

} // namespace braid
