//===- backends/cuda/cuda_progress.h - the progress of a GPU's streams ------------------------===//
//
// The GPU records each stream's last completed signal or await in host memory. CudaProgress uses
// these records to tell the watchdog which command each stream has reached and which streams wait.
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

/// The Plans registered with a device, and the current steps of the device's streams. All functions
/// except publish() are called by the rank's host thread.
class CudaProgress {
public:
  CudaProgress(const Gpu &gpu, CudaStreams &streams) : gpu_(gpu), streams_(streams) {}
  ~CudaProgress();
  CudaProgress(const CudaProgress &) = delete;
  Status start(CudaMemory &memory);

  // -- Registered Plans. --

  /// Returns the newest registration of the Plan, or null if there is none.
  RegisteredPlan *find(const Plan *plan) const;
  /// Like find(), but returns an empty registration instead of null, because steps without a Plan
  /// (uploads) launch no kernels and need no resources.
  const RegisteredPlan &of(const Plan *plan) const;
  /// Returns a registration of the same Plan that has the same steps on the same streams, or null.
  RegisteredPlan *findSame(const RegisteredPlan &other) const;
  llvm::ArrayRef<std::unique_ptr<RegisteredPlan>> all() const { return plans_; }
  void add(std::unique_ptr<RegisteredPlan> plan);
  /// Drops one use of the Plan's registration. Returns the registration if no uses remain,
  /// otherwise null. The Plan must have no runs in flight.
  std::unique_ptr<RegisteredPlan> remove(const Plan *plan);
  /// Records for the watchdog which Plan is being issued. Returns the Plan's registration, or null.
  RegisteredPlan *note(Tag tag);
  /// Returns the registration of the Plan that was issued last.
  const RegisteredPlan *current() const { return current_.load(std::memory_order_relaxed); }

  // -- Steps. --

  /// Returns the number that the GPU will write when this step completes.
  uint32_t number(uint32_t stream, Tag tag);
  /// Returns the address to which the GPU will write the step's number.
  uint32_t *stepOf(uint32_t stream, Tag tag);
  /// Makes the stream report the completion of this step.
  void reportStep(uint32_t stream, Tag tag);
  /// Makes the GPU report the replay's last wait as complete once the entire replay is complete.
  void reportReplay(const RegisteredPlan &replayed, uint32_t run);
  /// Records that all issued work is complete.
  void noteIdle();
  /// Fails with BadInput if runs of the same Plan have overlapped.
  Status checkOverlaps() const;
  /// Publishes the streams' progress in job memory. Returns `background`, an asynchronous error, or
  /// the result of checkOverlaps(). Called by the watchdog; makes no CUDA calls.
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
  /// Returns the tag of `step` if it is an await of a registered Plan, otherwise an empty tag.
  Tag awaitOf(uint64_t step) const;

  const Gpu &gpu_;
  CudaStreams &streams_;
  StepWord *words_ = nullptr;             ///< kMaxPlanStreams words for eager runs
  std::unique_ptr<IssuedSteps[]> issued_; ///< one for each word
  std::vector<std::unique_ptr<RegisteredPlan>> plans_;
  std::unordered_map<const Plan *, std::vector<RegisteredPlan *>> byPlan_; ///< newest last
  std::mutex mutex_; ///< held by the watchdog to read plans_, and by the host thread to modify it
  std::atomic<RegisteredPlan *> current_{nullptr};
  std::atomic<uint32_t> run_{0};    ///< the last run issued
  uint32_t seen_[kQueueSlots] = {}; ///< step numbers that the watchdog last saw
  cudaStream_t reports_ = nullptr;  ///< the stream for reports on replays
  bool isReportedBeside_ = false;   ///< true if the first stream must still wait for reports_
};

} // namespace braid
