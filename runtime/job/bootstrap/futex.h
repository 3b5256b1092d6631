//===- runtime/job/bootstrap/futex.h - sleeps until a flag in memory changes ------------------===//
//
// Uses raw system calls so that ThreadSanitizer treats only accesses to the flag itself as
// synchronization. A mutex, a condition variable or std::atomic::wait (which keeps waiters in
// shared tables) would add synchronization that hides the data races of a program that lacks a
// signal.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace braid {

/// The threads that may wait on a flag. All calls for a flag must use the same scope.
enum class FutexScope : uint8_t {
  Process,   ///< threads of one process; faster
  Processes, ///< all processes that map the memory
  Nobody,    ///< no thread sleeps, so none needs waking
};

/// Sleeps while `*flag` equals `seen`, for at most `slice`. May return early; call it in a loop.
inline void futexWait(const void *flag, uint32_t seen, std::chrono::milliseconds slice,
                      FutexScope scope = FutexScope::Process) {
  timespec limit{slice.count() / 1000, (slice.count() % 1000) * 1000000};
  int operation = scope == FutexScope::Process ? FUTEX_WAIT_PRIVATE : FUTEX_WAIT;
  syscall(SYS_futex, flag, operation, seen, &limit, nullptr, 0);
}

inline void futexWake(const void *flag, FutexScope scope = FutexScope::Process) {
  if (scope == FutexScope::Nobody)
    return;
  int operation = scope == FutexScope::Process ? FUTEX_WAKE_PRIVATE : FUTEX_WAKE;
  syscall(SYS_futex, flag, operation, INT_MAX, nullptr, nullptr, 0);
}

} // namespace braid
