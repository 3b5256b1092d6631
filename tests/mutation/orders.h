//===- tests/mutation/orders.h - which orders of commands a trial goes through ----------------===//
#pragma once

#include "backends/cpu/queue/command_queue.h"
#include "backends/cpu/queue/picker.h"

#include <map>
#include <vector>

namespace braid::test {

/// `Tag::command` of what the caller does on the main stream before a run, and after it.
inline constexpr uint32_t kCallerWrites = kNone;
inline constexpr uint32_t kCallerReads = kNone - 1;

/// A command as the checker and the backend both name it.
struct Action {
  int64_t rank;
  uint32_t run; ///< 1, 2, ...
  uint32_t command;
  auto operator<=>(const Action &) const = default;
};
Action actionOf(const RunnableHead &candidate);

/// A strategy for one round after the other. A round is some runs, issued together.
class Orders {
public:
  virtual ~Orders() = default;
  /// Prepares for the next round; false if there is none. Nothing runs meanwhile.
  virtual bool next() = 0;
  virtual size_t pick(llvm::ArrayRef<RunnableHead> candidates) = 0;
};

/// `rounds` random orders: one in four draws every step, the others favour rare ones.
class RandomOrders final : public Orders {
public:
  RandomOrders(uint32_t rounds, uint64_t seed) : rounds_(rounds), seed_(seed) {}
  bool next() override;
  size_t pick(llvm::ArrayRef<RunnableHead> candidates) override;

private:
  const uint32_t rounds_;
  const uint64_t seed_;
  uint32_t round_ = 0;
  uint32_t steps_ = 0, stepsBefore_ = 100; ///< steps in this round, and in the last
  Picker picker_;
};

/// Bytes that a command touches, at addresses.
struct Footprint {
  const char *begin;
  int64_t bytes;
  bool isWrite;
};

/// A command that ran, or will.
struct Step {
  Action action;
  std::vector<Footprint> footprint;
  const void *flag = nullptr; ///< that it waits for or writes
  uint32_t value = 0;
  bool isWait = false;
};
Step stepOf(const RunnableHead &candidate);

/// Both touch some byte or write one flag, and the order of the two matters.
bool conflict(const Step &a, const Step &b);

/// Every order there is, up to `limit`, but for those that differ only in the order of commands
/// that have nothing to do with each other: a command that conflicts with nothing that the other
/// queues can reach before it need not wait for a choice. A program without races has one order
/// then. All rounds are at the same addresses.
class AllOrders final : public Orders {
public:
  explicit AllOrders(uint32_t limit) : limit_(limit) {}
  bool next() override;
  size_t pick(llvm::ArrayRef<RunnableHead> candidates) override;
  /// There is no other order. Ask when next() has returned false.
  bool areComplete() const { return isComplete_; }
  /// The number of orders that were completed or begun.
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
  uint32_t rounds_ = 0; ///< the first one only learns what will be issued
  std::map<QueueId, std::vector<Step>> queues_;
  Progress progress_; ///< progress in this round, with the flags as they were in the first
  size_t depth_ = 0;
  std::vector<Choice> choices_;
  bool isComplete_ = false;
};

/// One round in which some actions wait as long as anything else can go on. Keeps what ran.
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
