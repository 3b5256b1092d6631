//===- runtime/memory_limit.h - checks the available memory -----------------------------------===//
#pragma once

#include "api/status.h"

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace braid {

/// Returns the number of bytes that this process can still allocate: the minimum of MemAvailable in
/// /proc/meminfo and the amounts left under RLIMIT_AS and its control groups' limits. Returns
/// UINT64_MAX if none of these can be read.
uint64_t availableMemory();

/// The memory that an operation needs, in bytes.
struct MemoryNeed {
  double bytes;        ///< total for all participating processes
  double addressSpace; ///< address space of one process, including unused reservations
};

/// Returns Unsupported if the operation needs more memory than is available: "checking 3 runs takes
/// about 123 GiB of memory, but only 20 GiB is available (MemAvailable)". `forWhat` begins
/// the message: "checking 3 runs takes"; `advice` is appended if not empty.
Status expectMemory(const MemoryNeed &need, const std::string &forWhat,
                    const std::string &advice = "");
/// Overload for an operation in this process that uses all the memory it reserves.
Status expectMemory(double bytes, const std::string &forWhat, const std::string &advice = "");

/// Formats a size, for example "123 GiB", "2.6 GiB" or "190 MiB".
std::string strOfBytes(double bytes);

/// Returns the number of bytes left under the limits of the control groups (cgroup v2), or nullopt
/// if no group has a limit. `membership` is the contents of /proc/self/cgroup, and `root` is the
/// mount point of the cgroup file system. Reclaimable page cache does not count as used.
std::optional<uint64_t> memoryLeftInGroups(llvm::StringRef membership, const std::string &root);

} // namespace braid
