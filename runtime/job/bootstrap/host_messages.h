//===- runtime/job/bootstrap/host_messages.h - the values in the store of a job's hosts -------===//
//
// The values are decimal numbers in text form, so that a store is readable. The decoders depend
// only on their input bytes, so that they can be fuzzed.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/job_memory.h"

#include "llvm/ADT/StringRef.h"

namespace braid {

/// The version of this format. Hosts of different versions cannot run a job together.
inline constexpr int kHostVersion = 10;

/// Encodes the parts of this host's ranks in all-gather `round`, and the step that all of them have
/// completed.
Result<std::string> encodeParts(const JobMemory &memory, uint32_t round);
/// Writes the parts of `host` into `memory`, unless they belong to another all-gather. Returns
/// BadInput unless `text` has one part for each rank of the host.
Status takeParts(llvm::StringRef text, JobMemory &memory, int64_t host, uint32_t round);

std::string encodeCause(const JobCause &cause);
Result<JobCause> decodeCause(llvm::StringRef text, int64_t ranks);

/// A heartbeat of a host.
struct HostSign {
  uint64_t number = 0;  ///< differs from that of the host's previous heartbeat
  bool hasLeft = false; ///< this is the host's last heartbeat
};

/// Encodes a heartbeat of this host, with the slots of its ranks. Their times are encoded as ages,
/// because each host has its own clock.
std::string encodeSign(const HostSign &sign, const JobMemory &memory);
/// Writes the slots of the ranks of `host` into `memory`, with times of this host's clock, unless
/// this is the heartbeat `known`.
Result<HostSign> takeSign(llvm::StringRef text, JobMemory &memory, int64_t host, uint64_t known);

} // namespace braid
