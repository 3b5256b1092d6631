//===- runtime/job/bootstrap/begun_runs.h - counts the runs that a rank has started -----------===//
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace braid {

/// Returns a key that identifies a program within its job, computed from Plan::fingerprint and
/// Plan::firstCommand. All ranks compute the same key, and it is never 0.
constexpr uint64_t programKey(uint64_t fingerprint, uint32_t firstCommand) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  return (fingerprint ^ (firstCommand + 1) * kOdd) | 1;
}

/// Counts, for each of a rank's programs, the runs that the rank has started. Must be placed in
/// zeroed shared memory. One thread of the rank adds and removes programs; any thread of any rank
/// may increment and read the counts.
class BegunRuns {
public:
  /// The capacity of the table. Once it is full, runs of additional programs are not counted.
  static constexpr size_t kMost = 256;

  /// Returns the count of `program`, initially 0, or null if the table is full.
  std::atomic<uint64_t> *add(uint64_t program) {
    Entry *entry = find(program);
    if (!entry && (entry = find(kFree)) != nullptr) {
      entry->runs.store(0, std::memory_order_relaxed);
      entry->program.store(program, std::memory_order_release);
    }
    if (!entry)
      return nullptr;
    entry->users.fetch_add(1, std::memory_order_relaxed);
    return &entry->runs;
  }

  /// Undoes one call to add(). Must be called once for each call that did not return null.
  void remove(uint64_t program) {
    if (Entry *found = find(program); found && found->users.fetch_sub(1) == 1)
      found->program.store(kFree, std::memory_order_relaxed);
  }

  /// Returns the count of `program`, or nullopt if `program` is not in the table.
  std::optional<uint64_t> of(uint64_t program) const {
    const Entry *found = const_cast<BegunRuns *>(this)->find(program);
    return found ? std::optional(found->runs.load(std::memory_order_relaxed)) : std::nullopt;
  }

private:
  static constexpr uint64_t kFree = 0;
  struct Entry {
    std::atomic<uint64_t> program, runs;
    std::atomic<uint32_t> users; ///< calls to add() minus calls to remove()
  };
  Entry *find(uint64_t program) {
    for (Entry &each : entries_)
      if (each.program.load(std::memory_order_acquire) == program)
        return &each;
    return nullptr;
  }

  Entry entries_[kMost];
};

} // namespace braid
