//===- backends/cuda/stream_steps.h - which step a stream of a GPU is at ----------------------===//
//
// A step is a command that the GPU tells of when it is over: a signal, an await, or a message. Here
// are the rules by which words that the GPU writes become what the watchdog wants to know. Names
// nothing of CUDA's.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/plan.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <atomic>
#include <cstdint>
#include <vector>

namespace braid {

/// A stream's progress, in memory that the GPU writes and the host reads: the number of the last
/// step that is over. Eager steps are numbered 1, 2, ... as they are issued. Steps in a Plan's
/// graphs have the number 1 + their command, because replays write what was recorded.
struct StepWord {
  uint32_t done;
  uint32_t padding[15];
};

/// A word that the GPU writes.
inline uint32_t look(uint32_t &word) {
  return std::atomic_ref<uint32_t>(word).load(std::memory_order_relaxed);
}

/// Is the command over only when a peer has done its part?
bool waitsForPeers(CommandKind kind);
/// Is the command a step?
inline bool isStep(CommandKind kind) { return kind == CommandKind::Signal || waitsForPeers(kind); }

/// A step of a run: run << 32 | Plan::firstCommand + command.
inline constexpr uint64_t kNoStep = ~uint64_t(0);
constexpr uint64_t packStep(uint32_t run, uint32_t command) {
  return uint64_t(run) << 32 | command;
}
/// Plan::firstCommand + command, of a step.
constexpr uint32_t commandOf(uint64_t step) { return static_cast<uint32_t>(step); }
using Steps = llvm::SmallVector<uint64_t, 4>;

/// The steps that were issued to a stream last, and eagerly. The host thread writes, the watchdog
/// reads.
class IssuedSteps {
public:
  /// Returns the number that the GPU is to write.
  uint32_t add(uint64_t step);
  /// Appends the steps that the stream may be executing: none if all are over, else the first that
  /// is not over, or all that are kept if that one is not among them.
  void appendNext(StepWord &word, Steps &steps) const;
  /// The last one that is over, or kNoStep; also if it is not kept any more.
  uint64_t last(StepWord &word) const;

  static constexpr uint32_t kKept = 256;

private:
  std::atomic<uint32_t> count_{0};
  std::atomic<uint64_t> steps_[kKept] = {}; ///< by number
};

/// The steps of a Plan, and how far its runs in graphs are, which follow one another.
class GraphSteps {
public:
  explicit GraphSteps(const Plan &plan);

  /// The same steps on the same streams?
  bool isOfSame(const GraphSteps &other) const { return commands_ == other.commands_; }
  size_t streams() const { return commands_.size(); }
  /// In issue order.
  llvm::ArrayRef<uint32_t> commands(size_t stream) const { return commands_[stream]; }
  /// Does the first step wait for nobody, so that it shows at once that a run has begun? If it is
  /// the only one of its stream, later runs write the same there: a stream that begins with a wait
  /// may then stand unseen, if the peers have begun as many runs.
  bool showsItsBeginning() const { return showsItsBeginning_; }
  /// The last one that waits for peers, of all streams; kNone: none does.
  uint32_t lastWait() const { return lastWait_; }

  /// Is a stream between its first step and its last one? A word is written by every run alike, so
  /// where all streams are at their last steps, the latest run may be over, or may not have come to
  /// its first step.
  bool isWithinRun() const;
  /// The step that a stream is at, if a run is under way: behind the last step of one, the first of
  /// the next. kNoStep: none, or a first one that waits for nobody, so that what is in front of it
  /// takes the time.
  uint64_t next(size_t stream) const;
  /// The last one that is over, or kNoStep.
  uint64_t last(size_t stream) const;
  /// Has a step of the stream ended since this was asked last? Asked by the watchdog only.
  bool hasMoved(size_t stream);

  StepWord *words = nullptr;    ///< one for each stream, written by the GPU
  std::atomic<uint32_t> run{1}; ///< the last one launched, or when the caller's was recorded

private:
  uint64_t pack(uint32_t command) const;

  uint32_t firstCommand_;
  std::vector<std::vector<uint32_t>> commands_;
  std::vector<bool> waitsAtFirst_;
  std::vector<uint32_t> seen_;
  bool showsItsBeginning_ = false;
  uint32_t lastWait_ = kNone;
};

/// Programs with runs in graphs that are under way.
struct StepsUnderWay {
  llvm::SmallVector<const GraphSteps *, 4> within; ///< the GPU is in the middle of them
  llvm::SmallVector<const GraphSteps *, 4> before; ///< it has perhaps not come to them
};

/// The step that a stream is executing, or kNoStep. If the GPU is in the middle of a run,
/// everything else that was issued comes later. Otherwise the order is unknown, and a waiting step
/// is named, because that is the one that may stand still.
uint64_t nextStep(size_t stream, const StepsUnderWay &underWay, const IssuedSteps &issued,
                  StepWord &word, llvm::function_ref<bool(uint64_t step)> waits);

} // namespace braid
