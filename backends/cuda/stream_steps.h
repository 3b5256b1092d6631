//===- backends/cuda/stream_steps.h - the current step of a GPU's stream ----------------------===//
//
// A step is a command whose completion the GPU reports: a signal, an await, or a message. This file
// interprets the GPU's reports for the watchdog. It does not depend on CUDA.
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
/// completed step. Eager steps are numbered 1, 2, ... in issue order. A step in a graph is numbered
/// command + 1, because every replay writes the recorded value.
struct StepWord {
  uint32_t done;
  uint32_t padding[15];
};

/// Reads a word that the GPU writes.
inline uint32_t look(uint32_t &word) {
  return std::atomic_ref<uint32_t>(word).load(std::memory_order_relaxed);
}

/// Returns true if commands of this kind complete only after a peer executes a matching command.
bool waitsForPeers(CommandKind kind);
/// Returns true if the command is a step.
inline bool isStep(CommandKind kind) { return kind == CommandKind::Signal || waitsForPeers(kind); }

/// A step of a particular run is encoded as run << 32 | Plan::firstCommand + command.
inline constexpr uint64_t kNoStep = ~uint64_t(0);
constexpr uint64_t packStep(uint32_t run, uint32_t command) {
  return uint64_t(run) << 32 | command;
}
/// Returns Plan::firstCommand + command for a step.
constexpr uint32_t commandOf(uint64_t step) { return static_cast<uint32_t>(step); }
using Steps = llvm::SmallVector<uint64_t, 4>;

/// The most recent eager steps of a stream. Written by the host thread and read by the watchdog.
class IssuedSteps {
public:
  /// Returns the number that the GPU will write when the step completes.
  uint32_t add(uint64_t step);
  /// Appends the steps that the stream may be executing: none if all are complete, otherwise the
  /// first incomplete step, or all stored steps if the first incomplete step is no longer stored.
  void appendNext(StepWord &word, Steps &steps) const;
  /// Returns the last completed step, or kNoStep if there is none or it is no longer stored.
  uint64_t last(StepWord &word) const;

  static constexpr uint32_t kKept = 256;

private:
  std::atomic<uint32_t> count_{0};
  std::atomic<uint64_t> steps_[kKept] = {}; ///< indexed by step number modulo kKept
};

/// The steps of a Plan, and the progress of the Plan's runs in graphs. Runs do not overlap.
class GraphSteps {
public:
  explicit GraphSteps(const Plan &plan);

  /// Returns true if `other` has the same steps on the same streams.
  bool isOfSame(const GraphSteps &other) const { return commands_ == other.commands_; }
  size_t streams() const { return commands_.size(); }
  /// Returns the steps of a stream in issue order, as command indices.
  llvm::ArrayRef<uint32_t> commands(size_t stream) const { return commands_[stream]; }
  /// Returns true if the Plan's first step waits for no peer, so that its completion immediately
  /// shows that a run has begun. If this step is the only step of its stream, however, every run
  /// writes the same number. A stream that begins with a wait may then hang undetected if all peers
  /// have begun the same number of runs.
  bool showsItsBeginning() const { return showsItsBeginning_; }
  /// Returns the last step, across all streams, that waits for peers, or kNone.
  uint32_t lastWait() const { return lastWait_; }

  /// Returns true if a stream is between its first and last steps. Every run writes the same
  /// numbers, so if all streams are at their last steps, the latest run has either completed or not
  /// yet reached its first step.
  bool isWithinRun() const;
  /// Returns the step that the stream is executing, assuming that a run is in progress. Initially
  /// and after the last step, returns the next run's first step, or kNoStep if that step waits for
  /// no peer, because the stream is then busy with earlier work, or if there are no steps.
  uint64_t next(size_t stream) const;
  /// Returns the last completed step, or kNoStep.
  uint64_t last(size_t stream) const;
  /// Returns true if the stream has completed a step since the last call. Called by the watchdog.
  bool hasMoved(size_t stream);

  StepWord *words = nullptr; ///< one per stream, written by the GPU
  /// the run that was launched last, or the run that a caller captured
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

/// Programs whose runs in graphs are, or may be, in progress.
struct StepsUnderWay {
  llvm::SmallVector<const GraphSteps *, 4> within; ///< programs with a run in progress
  llvm::SmallVector<const GraphSteps *, 4> before; ///< programs whose run may not have begun
};

/// Returns the step that a stream is executing, or kNoStep. If the GPU is in the middle of a run,
/// all other issued work is queued after that run. Otherwise, the order of the work is unknown, and
/// a step that waits takes precedence, because only a waiting step can hang.
uint64_t nextStep(size_t stream, const StepsUnderWay &underWay, const IssuedSteps &issued,
                  StepWord &word, llvm::function_ref<bool(uint64_t step)> waits);

} // namespace braid
