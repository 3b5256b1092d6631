//===- backends/cuda/cuda_progress.h - the progress of a GPU's streams ------------------------===//
//
// The GPU writes to host memory which signal or await of a stream has completed last. CudaProgress
// translates this for the watchdog: which command each stream has reached, and whether it waits.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/cuda_streams.h"
#include "backends/cuda/registered_plan.h"
#include "runtime/execute/device.h"

#include <atomic>
#include <mutex>
#include <unordered_map>

namespace braid {

/// The registered Plans of a device, and the current steps of its streams. Called by the rank's
/// host thread, except publish().
class CudaProgress {
public:
  CudaProgress(const Gpu &gpu, CudaStreams &streams) : gpu_(gpu), streams_(streams) {}
  ~CudaProgress();
  CudaProgress(const CudaProgress &) = delete;
  Status start(CudaMemory &memory);

  // -- Registered Plans. --

  /// Returns the newest registration of the Plan, or null if it is not registered.
  RegisteredPlan *find(const Plan *plan) const;
  /// As find(), but never null: steps without a Plan (uploads) launch no kernel, so an empty
  /// registration suffices.
  const RegisteredPlan &of(const Plan *plan) const;
  /// Returns a registration of the same Plan with the same steps on the same streams, or null.
  RegisteredPlan *findSame(const RegisteredPlan &other) const;
  llvm::ArrayRef<std::unique_ptr<RegisteredPlan>> all() const { return plans_; }
  void add(std::unique_ptr<RegisteredPlan> plan);
  /// Removes a registration without runs in flight. Returns null while other registrations of the
  /// Plan remain.
  std::unique_ptr<RegisteredPlan> remove(const Plan *plan);
  /// Records for the watchdog which Plan is being issued. Returns null if it is not registered.
  RegisteredPlan *note(Tag tag);
  /// Returns the Plan that was issued last.
  const RegisteredPlan *current() const { return current_.load(std::memory_order_relaxed); }

  // -- Steps. --

  /// Returns the number that the GPU will write when this step completes.
  uint32_t number(uint32_t stream, Tag tag);
  /// Returns the address to which the GPU writes that number.
  uint32_t *stepOf(uint32_t stream, Tag tag);
  /// Makes the stream write that this step is complete.
  void reportStep(uint32_t stream, Tag tag);
  /// Reports the last wait of a replay after the replay.
  void reportReplay(const RegisteredPlan &replayed, uint32_t run);
  /// Records that all issued work is complete.
  void noteIdle();
  /// Fails with BadInput if runs of a Plan have overlapped.
  Status checkOverlaps() const;
  /// Publishes the progress of the streams in the job memory. Returns `background`, an error of
  /// asynchronous work, or that of checkOverlaps(). Called by the watchdog; only reads and writes
  /// memory.
  Status publish(const Status &background);

private:
  uint32_t nextNumber(uint32_t stream, Tag tag);
  void report(cudaStream_t stream, uint32_t *word, uint32_t value);
  void awaitReports(uint32_t stream);
  bool hasPeersThatLag(const RegisteredPlan &registered) const;
  StepsUnderWay findUnderWay() const;
  uint64_t nextStep(uint32_t stream, const StepsUnderWay &underWay) const;
  void publish(uint32_t stream, const StepsUnderWay &underWay, bool hasEnded);
  bool hasMoved(uint32_t stream, uint64_t &last);
  /// Returns the tag of a step that is an await of a registered Plan, otherwise an empty tag.
  Tag awaitOf(uint64_t step) const;

  const Gpu &gpu_;
  CudaStreams &streams_;
  StepWord *words_ = nullptr;             ///< kMaxPlanStreams words for eager runs
  std::unique_ptr<IssuedSteps[]> issued_; ///< one for each word
  std::vector<std::unique_ptr<RegisteredPlan>> plans_;
  std::unordered_map<const Plan *, std::vector<RegisteredPlan *>> byPlan_; ///< the newest last
  std::mutex mutex_; ///< held by the watchdog to read plans_, and to remove an entry
  std::atomic<RegisteredPlan *> current_{nullptr};
  std::atomic<uint32_t> run_{0};    ///< the last issued run of current_
  uint32_t seen_[kQueueSlots] = {}; ///< steps last seen by the watchdog
  cudaStream_t reports_ = nullptr;  ///< for reports that follow replays
  bool isReportedBeside_ = false;   ///< true if the first stream has not waited for these reports
};

} // namespace braid
