//===- runtime/memory_limit.h - checks the available memory -----------------------------------===//
#pragma once

#include "api/status.h"

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace braid {

/// Returns the bytes that this process can still allocate: the minimum of RLIMIT_AS minus its
/// address space, the limits of its control groups minus their usage, and MemAvailable of
/// /proc/meminfo. Returns UINT64_MAX if none of them can be read.
uint64_t availableMemory();

/// The memory that an operation needs, in bytes.
struct MemoryNeed {
  double bytes;        ///< memory in all participating processes
  double addressSpace; ///< address space of one process, including unused reservations
};

/// Returns ok, or Unsupported if the operation needs more memory than is available: "checking 3
/// runs takes about 123 GiB of memory, but 20 GiB are available (MemAvailable)". `forWhat` is the
/// subject with its verb, "checking 3 runs takes"; `advice` ends the message.
Status expectMemory(const MemoryNeed &need, const std::string &forWhat,
                    const std::string &advice = "");
/// Like above, for an operation of this process that uses all memory it reserves.
Status expectMemory(double bytes, const std::string &forWhat, const std::string &advice = "");

/// Formats a size, for example "123 GiB", "2.6 GiB" or "190 MiB".
std::string strOfBytes(double bytes);

/// Returns the memory that the control groups (version 2) leave. `membership` is the text of
/// /proc/self/cgroup, and `root` the folder where groups are mounted. Returns nullopt if no group
/// has a limit. Reclaimable page cache does not count as used.
std::optional<uint64_t> memoryLeftInGroups(llvm::StringRef membership, const std::string &root);

} // namespace braid
