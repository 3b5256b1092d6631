//===- runtime/job/bootstrap/host_messages.h - what the hosts of a job put into their store ---===//
//
// Texts of decimal numbers, so that a person can read a store. The functions that read them depend
// on bytes only, so that they can be fuzzed.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/job_memory.h"

#include "llvm/ADT/StringRef.h"

namespace braid {

/// Changes with these texts. Hosts of different versions do not run a job together.
inline constexpr int kHostVersion = 8;

/// The parts of this host's ranks in all-gather `round`, and the step that all of them have done.
Result<std::string> encodeParts(const JobMemory &memory, uint32_t round);
/// Writes the parts of `host` into `memory`, unless they belong to another all-gather. BadInput
/// unless `text` has one part for each rank of the host.
Status takeParts(llvm::StringRef text, JobMemory &memory, int64_t host, uint32_t round);

std::string encodeCause(const JobCause &cause);
Result<JobCause> decodeCause(llvm::StringRef text, int64_t ranks);

/// A host's sign of life.
struct HostSign {
  uint64_t number = 0;  ///< differs from that of the host's sign before
  bool hasLeft = false; ///< this is the host's last sign
};

/// The sign, and what this host's ranks do, with times of host 0's clock.
std::string encodeSign(const HostSign &sign, const JobMemory &memory);
/// Writes what the ranks of `host` do into `memory`, with times of this host's clock.
Result<HostSign> takeSign(llvm::StringRef text, JobMemory &memory, int64_t host);

} // namespace braid
