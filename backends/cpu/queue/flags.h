//===- backends/cpu/queue/flags.h - flags that one stream writes and another waits for --------===//
//
// Signals and events are the same here: a 32-bit counter in memory, written with release and read
// with acquire. Nothing else orders two streams, so ThreadSanitizer sees exactly the order of the
// program.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/futex.h"

#include <atomic>

namespace braid {

inline std::atomic_ref<uint32_t> flagAt(const void *address) {
  return std::atomic_ref<uint32_t>(*static_cast<uint32_t *>(const_cast<void *>(address)));
}

/// Compares in cyclic order, so that a counter may wrap around.
inline bool hasReached(uint32_t flag, uint32_t value) {
  return static_cast<int32_t>(flag - value) >= 0;
}

inline void storeFlag(void *address, uint32_t value, FutexScope scope) {
  flagAt(address).store(value, std::memory_order_release);
  futexWake(address, scope);
}

} // namespace braid
