//===- tests/mutation/orders.h - the orders of commands in a trial ----------------------------===//
#pragma once

#include "backends/cpu/queue/command_queue.h"
#include "backends/cpu/queue/picker.h"

#include <map>
#include <vector>

namespace braid::test {

/// `Tag::command` of the caller's accesses on the main stream, before and after a run.
inline constexpr uint32_t kCallerWrites = kNone;
inline constexpr uint32_t kCallerReads = kNone - 1;

/// Identifies a command in a way that the checker and the backend share.
struct Action {
  int64_t rank;
  uint32_t run; ///< counted from 1
  uint32_t command;
  auto operator<=>(const Action &) const = default;
};
Action actionOf(const RunnableHead &candidate);

/// Chooses the order of commands in successive rounds. A round consists of several runs that are
/// issued together.
class Orders {
public:
  virtual ~Orders() = default;
  /// Prepares for the next round, or returns false if there is none. Nothing runs during this call.
  virtual bool next() = 0;
  virtual size_t pick(llvm::ArrayRef<RunnableHead> candidates) = 0;
};

/// Tries `rounds` random orders. One in four uses seededPicker(); the others use priorityPicker(),
/// which favors rare orders.
class RandomOrders final : public Orders {
public:
  RandomOrders(uint32_t rounds, uint64_t seed) : rounds_(rounds), seed_(seed) {}
  bool next() override;
  size_t pick(llvm::ArrayRef<RunnableHead> candidates) override;

private:
  const uint32_t rounds_;
  const uint64_t seed_;
  uint32_t round_ = 0;
  uint32_t steps_ = 0, stepsBefore_ = 100; ///< number of steps in this and the previous round
  Picker picker_;
};

/// A range of addresses that a command accesses.
struct Footprint {
  const char *begin;
  int64_t bytes;
  bool isWrite;
};

/// A command that has run or will run.
struct Step {
  Action action;
  std::vector<Footprint> footprint;
  const void *flag = nullptr; ///< the flag that it waits for or writes
  uint32_t value = 0;
  bool isWait = false;
};
Step stepOf(const RunnableHead &candidate);

/// Returns true if the order of the two steps matters: they write the same flag, or they access the
/// same byte and at least one of them writes it.
bool conflict(const Step &a, const Step &b);

/// Tries up to `limit` orders. Skips orders that differ only in the order of independent commands:
/// if a candidate conflicts with no command that other queues can reach before it, no alternative
/// to it is tried. A program without races therefore has a single order. All rounds must use the
/// same addresses.
class AllOrders final : public Orders {
public:
  explicit AllOrders(uint32_t limit) : limit_(limit) {}
  bool next() override;
  size_t pick(llvm::ArrayRef<RunnableHead> candidates) override;
  /// Returns whether all orders were tried. Call after next() has returned false.
  bool areComplete() const { return isComplete_; }
  /// Returns the number of orders that were started.
  uint32_t orders() const { return rounds_ == 0 ? 0 : rounds_ - 1; }

private:
  using QueueId = std::pair<int64_t, uint32_t>;
  struct Progress {
    std::map<QueueId, size_t> position;
    std::map<const void *, uint32_t> flags;
  };
  bool isFree(const RunnableHead &candidate) const;
  static bool canRun(const Step &step, const Progress &progress);
  static void advance(const Step &step, QueueId queue, Progress &progress);
  size_t choose(llvm::ArrayRef<RunnableHead> candidates);

  struct Choice {
    size_t taken, count;
  };
  const uint32_t limit_;
  uint32_t rounds_ = 0; ///< the first round only records the commands
  std::map<QueueId, std::vector<Step>> queues_;
  Progress progress_; ///< in this round; the flags are those recorded in the first round
  size_t depth_ = 0;
  std::vector<Choice> choices_;
  bool isComplete_ = false;
};

/// Runs a single round in which the `held` actions run only when no other command can. Records the
/// commands.
class HoldBack final : public Orders {
public:
  HoldBack(std::vector<Action> held, uint64_t seed)
      : held_(std::move(held)), picker_(seededPicker(seed)) {}
  bool next() override { return rounds_++ == 0; }
  size_t pick(llvm::ArrayRef<RunnableHead> candidates) override;
  llvm::ArrayRef<Step> steps() const { return steps_; }

private:
  std::vector<Action> held_;
  Picker picker_;
  uint32_t rounds_ = 0;
  std::vector<Step> steps_;
};

} // namespace braid::test
