//===- runtime/job/bootstrap/begun_runs.h - how many runs of each program a rank has begun ----===//
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace braid {

/// The name of a program among those of its job, the same on all ranks: Plan::fingerprint and
/// Plan::firstCommand. Never 0.
constexpr uint64_t programKey(uint64_t fingerprint, uint32_t firstCommand) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  return (fingerprint ^ (firstCommand + 1) * kOdd) | 1;
}

/// Lies in shared memory, zeroed at first. One rank's thread adds and removes programs; any thread
/// of any rank counts and reads.
class BegunRuns {
public:
  /// Programs beyond these are not counted.
  static constexpr size_t kMost = 256;

  /// A count of 0 for a program, or the one that it has. Null: there is no room.
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

  /// Call it once for each count that add() has returned.
  void remove(uint64_t program) {
    if (Entry *found = find(program); found && found->users.fetch_sub(1) == 1)
      found->program.store(kFree, std::memory_order_relaxed);
  }

  /// Nothing: the program is not counted.
  std::optional<uint64_t> of(uint64_t program) const {
    const Entry *found = const_cast<BegunRuns *>(this)->find(program);
    return found ? std::optional(found->runs.load(std::memory_order_relaxed)) : std::nullopt;
  }

private:
  static constexpr uint64_t kFree = 0;
  struct Entry {
    std::atomic<uint64_t> program, runs;
    std::atomic<uint32_t> users; ///< additions
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
