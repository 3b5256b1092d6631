//===- runtime/job/bootstrap/begun_runs.h - counts the runs that a rank has started -----------===//
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace braid {

/// Returns the key of a program within its job, computed from Plan::fingerprint and
/// Plan::firstCommand. Equal on all ranks. Never 0.
constexpr uint64_t programKey(uint64_t fingerprint, uint32_t firstCommand) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  return (fingerprint ^ (firstCommand + 1) * kOdd) | 1;
}

/// The number of started runs of each program of a rank. Must be placed in zeroed shared memory.
/// One thread of the rank adds and removes programs; any thread of any rank increments and reads
/// counts.
class BegunRuns {
public:
  /// The capacity. Further programs are not counted.
  static constexpr size_t kMost = 256;

  /// Returns the program's count, which starts at 0, or null if the table is full.
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

  /// Must be called once for each count that add() returned.
  void remove(uint64_t program) {
    if (Entry *found = find(program); found && found->users.fetch_sub(1) == 1)
      found->program.store(kFree, std::memory_order_relaxed);
  }

  /// Returns the count, or nullopt if the program is not counted.
  std::optional<uint64_t> of(uint64_t program) const {
    const Entry *found = const_cast<BegunRuns *>(this)->find(program);
    return found ? std::optional(found->runs.load(std::memory_order_relaxed)) : std::nullopt;
  }

private:
  static constexpr uint64_t kFree = 0;
  struct Entry {
    std::atomic<uint64_t> program, runs;
    std::atomic<uint32_t> users; ///< calls of add() minus calls of remove()
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
