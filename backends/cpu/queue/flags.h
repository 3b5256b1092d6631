//===- backends/cpu/queue/flags.h - flags that one stream writes and another waits for --------===//
//
// Signals and events are both 32-bit counters in memory, written with release stores and read with
// acquire loads. Two streams are not ordered in any other way, so ThreadSanitizer sees exactly the
// ordering that the program specifies.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/futex.h"

#include <atomic>

namespace braid {

inline std::atomic_ref<uint32_t> flagAt(const void *address) {
  return std::atomic_ref<uint32_t>(*static_cast<uint32_t *>(const_cast<void *>(address)));
}

/// Returns true if `flag` is at least `value`, modulo 2^32, because counters may wrap around.
inline bool hasReached(uint32_t flag, uint32_t value) {
  return static_cast<int32_t>(flag - value) >= 0;
}

inline void storeFlag(void *address, uint32_t value, FutexScope scope) {
  flagAt(address).store(value, std::memory_order_release);
  futexWake(address, scope);
}

} // namespace braid
