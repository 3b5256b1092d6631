//===- runtime/job/bootstrap/host_messages.h - the format of the values in the hosts' store ---===//
//
// The values are decimal numbers in text form, so that a store is human-readable. The decoders
// depend only on their input bytes, so that they can be fuzzed.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/job_memory.h"

#include "llvm/ADT/StringRef.h"

namespace braid {

/// The version of this format. Hosts with different versions cannot run a job together.
inline constexpr int kHostVersion = 11;

/// Encodes the parts that this host's ranks contribute to all-gather `round`, and their last
/// completed step.
Result<std::string> encodeParts(const JobMemory &memory, uint32_t round);
/// Decodes `text` and stores the parts of the ranks on `host` in `memory`, unless `text` belongs to
/// an all-gather other than `round`. Returns BadInput unless `text` has one part per rank.
Status takeParts(llvm::StringRef text, JobMemory &memory, int64_t host, uint32_t round);

std::string encodeCause(const JobCause &cause);
Result<JobCause> decodeCause(llvm::StringRef text, int64_t ranks);

/// A host's heartbeat.
struct HostSign {
  uint64_t number = 0;  ///< differs from the number of the host's previous heartbeat
  bool hasLeft = false; ///< true in the host's last heartbeat
};

/// Encodes a heartbeat of this host, with the slots of its ranks. Times are encoded as ages,
/// because each host has its own clock.
std::string encodeSign(const HostSign &sign, const JobMemory &memory);
/// Decodes a heartbeat of `host` and stores the slots of its ranks in `memory`, with times
/// converted to this host's clock. Stores nothing if the heartbeat's number equals `known`.
Result<HostSign> takeSign(llvm::StringRef text, JobMemory &memory, int64_t host, uint64_t known);

} // namespace braid
