//===- backends/cuda/stream_steps.h - the current step of a GPU's stream ----------------------===//
//
// A step is a command whose completion the GPU reports: a signal, an await, or a message. This file
// interprets the words that the GPU writes for the watchdog. It does not depend on CUDA.
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
/// completed step. Eager steps are numbered 1, 2, ... in issue order. A step in a Plan's graph has
/// the number 1 + its command, because replays write the recorded value.
struct StepWord {
  uint32_t done;
  uint32_t padding[15];
};

/// Reads a word that the GPU writes.
inline uint32_t look(uint32_t &word) {
  return std::atomic_ref<uint32_t>(word).load(std::memory_order_relaxed);
}

/// True if the command completes only when a peer has done its part.
bool waitsForPeers(CommandKind kind);
/// True if the command is a step.
inline bool isStep(CommandKind kind) { return kind == CommandKind::Signal || waitsForPeers(kind); }

/// A step of a run: run << 32 | Plan::firstCommand + command.
inline constexpr uint64_t kNoStep = ~uint64_t(0);
constexpr uint64_t packStep(uint32_t run, uint32_t command) {
  return uint64_t(run) << 32 | command;
}
/// Returns Plan::firstCommand + command of a step.
constexpr uint32_t commandOf(uint64_t step) { return static_cast<uint32_t>(step); }
using Steps = llvm::SmallVector<uint64_t, 4>;

/// The last eager steps of a stream. The host thread writes, the watchdog reads.
class IssuedSteps {
public:
  /// Returns the number that the GPU will write for the step.
  uint32_t add(uint64_t step);
  /// Appends the steps that the stream may be executing: none if all are complete, otherwise the
  /// first incomplete one, or all that are kept if that one is no longer among them.
  void appendNext(StepWord &word, Steps &steps) const;
  /// Returns the last completed step, or kNoStep, also if that step is no longer kept.
  uint64_t last(StepWord &word) const;

  static constexpr uint32_t kKept = 256;

private:
  std::atomic<uint32_t> count_{0};
  std::atomic<uint64_t> steps_[kKept] = {}; ///< by number
};

/// The steps of a Plan, and the progress of its runs in graphs, which do not overlap.
class GraphSteps {
public:
  explicit GraphSteps(const Plan &plan);

  /// True if both have the same steps on the same streams.
  bool isOfSame(const GraphSteps &other) const { return commands_ == other.commands_; }
  size_t streams() const { return commands_.size(); }
  /// Returns the commands of a stream in issue order.
  llvm::ArrayRef<uint32_t> commands(size_t stream) const { return commands_[stream]; }
  /// True if the first step waits for no peer and so shows at once that a run has begun. If it is
  /// the only step of its stream, later runs write the same number: a stream that begins with a
  /// wait may then hang unnoticed if the peers have begun equally many runs.
  bool showsItsBeginning() const { return showsItsBeginning_; }
  /// Returns the last step, over all streams, that waits for peers, or kNone.
  uint32_t lastWait() const { return lastWait_; }

  /// True if a stream is between its first and its last step. Every run writes the same numbers, so
  /// if all streams are at their last steps, the latest run is either complete or has not reached
  /// its first step.
  bool isWithinRun() const;
  /// Returns the step that a stream executes if a run is in progress; after the last step of a run,
  /// the first step of the next one. Returns kNoStep if there is none, or if it is a first step
  /// that waits for no peer, because then the stream is busy with earlier work.
  uint64_t next(size_t stream) const;
  /// Returns the last completed step, or kNoStep.
  uint64_t last(size_t stream) const;
  /// Returns true if a step of the stream has completed since the last call. For the watchdog only.
  bool hasMoved(size_t stream);

  StepWord *words = nullptr; ///< one per stream, written by the GPU
  /// the last launched run, or the run that a caller recorded
  std::atomic<uint32_t> run{1};

private:
  uint64_t pack(uint32_t command) const;

  uint32_t firstCommand_;
  std::vector<std::vector<uint32_t>> commands_;
  std::vector<bool> waitsAtFirst_;
  std::vector<uint32_t> seen_;
  bool showsItsBeginning_ = false;
  uint32_t lastWait_ = kNone;
};

/// Programs whose runs in graphs are in progress.
struct StepsUnderWay {
  llvm::SmallVector<const GraphSteps *, 4> within; ///< programs with a run in progress
  llvm::SmallVector<const GraphSteps *, 4> before; ///< programs whose run may not have begun
};

/// Returns the step that a stream is executing, or kNoStep. If the GPU is in the middle of a run,
/// all other issued work comes later. Otherwise the order is unknown, and the result is a step that
/// waits, if there is one, because only such a step can hang.
uint64_t nextStep(size_t stream, const StepsUnderWay &underWay, const IssuedSteps &issued,
                  StepWord &word, llvm::function_ref<bool(uint64_t step)> waits);

} // namespace braid
