//===- runtime/memory_limit.h - how much memory there is left to take -------------------------===//
#pragma once

#include "api/status.h"

#include <cstdint>
#include <optional>
#include <string>

namespace braid {

/// Bytes that this process can still take: the smallest of RLIMIT_AS less the address space in use,
/// the memory limits of its control groups less what is used there, and MemAvailable of
/// /proc/meminfo. UINT64_MAX if none of them can be read.
uint64_t availableMemory();

/// The memory that a piece of work takes, in bytes.
struct MemoryNeed {
  double bytes;        ///< memory in all processes that take part
  double addressSpace; ///< address space of one process, untouched reservations included
};

/// Ok, or Unsupported where the work takes more than is available:
/// "checking 3 runs takes about 123 GiB of memory, but 20 GiB are available (MemAvailable)".
/// `forWhat` is the subject with its verb, "checking 3 runs takes"; `advice` ends the message.
Status expectMemory(const MemoryNeed &need, const std::string &forWhat,
                    const std::string &advice = "");
/// The same for work in this process that touches all it takes.
Status expectMemory(double bytes, const std::string &forWhat, const std::string &advice = "");

/// "123 GiB", "2.6 GiB", "190 MiB".
std::string strOfBytes(double bytes);

/// The memory that control groups leave: `membership` is the text of /proc/self/cgroup, `root` the
/// folder where groups are mounted. Nothing if no group has a limit. Page cache that can be dropped
/// does not count as used.
std::optional<uint64_t> memoryLeftInGroups(const std::string &membership, const std::string &root);

} // namespace braid
