//===- backends/cuda/cuda_progress.h - how far a GPU is ---------------------------------------===//
//
// The GPU writes into host memory which signal or await of a stream was over last. Here this
// becomes what the watchdog wants to know: which command each stream is at, and whether it waits.
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

/// The registered Plans of a device, and the steps that its streams are at. Called by the rank's
/// host thread, but for publish().
class CudaProgress {
public:
  CudaProgress(const Gpu &gpu, CudaStreams &streams) : gpu_(gpu), streams_(streams) {}
  ~CudaProgress();
  CudaProgress(const CudaProgress &) = delete;
  Status start(CudaMemory &memory);

  // -- Registered Plans. --

  /// The newest registration. Null: the Plan is not registered.
  RegisteredPlan *find(const Plan *plan) const;
  /// The same, or one without anything. Steps without a Plan (uploads) launch no kernel, so any
  /// registration will do.
  const RegisteredPlan &of(const Plan *plan) const;
  /// One with the same steps on the same streams, of the same Plan; null: there is none.
  RegisteredPlan *findSame(const RegisteredPlan &other) const;
  llvm::ArrayRef<std::unique_ptr<RegisteredPlan>> all() const { return plans_; }
  void add(std::unique_ptr<RegisteredPlan> plan);
  /// Ends one registration, of which nothing runs any more. Null: others of this Plan remain.
  std::unique_ptr<RegisteredPlan> remove(const Plan *plan);
  /// Remembers what is being issued, for the watchdog. Null: of no registered Plan.
  RegisteredPlan *note(Tag tag);
  /// The Plan that was issued last.
  const RegisteredPlan *current() const { return current_.load(std::memory_order_relaxed); }

  // -- Steps. --

  /// The number that the GPU will write when this step is over.
  uint32_t number(uint32_t stream, Tag tag);
  /// The place at which it writes that.
  uint32_t *stepOf(uint32_t stream, Tag tag);
  /// The stream writes that this step is over.
  void reportStep(uint32_t stream, Tag tag);
  /// The same for a replay, behind it.
  void reportReplay(const RegisteredPlan &replayed, uint32_t run);
  /// All that was issued is over.
  void noteIdle();
  /// BadInput if runs of a Plan have overlapped.
  Status checkOverlaps() const;
  /// Writes into the job memory how far the streams are. `background`: what has failed there.
  /// Called by the watchdog; reads and writes memory only.
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
  /// The await that a step is, of a Plan that was introduced; else of none.
  Tag awaitOf(uint64_t step) const;

  const Gpu &gpu_;
  CudaStreams &streams_;
  StepWord *words_ = nullptr;             ///< for eager runs, kMaxPlanStreams of them
  std::unique_ptr<IssuedSteps[]> issued_; ///< likewise
  std::vector<std::unique_ptr<RegisteredPlan>> plans_;
  std::unordered_map<const Plan *, std::vector<RegisteredPlan *>> byPlan_; ///< the newest last
  std::mutex mutex_; ///< held where the watchdog reads plans_, and one goes
  std::atomic<RegisteredPlan *> current_{nullptr};
  std::atomic<uint32_t> run_{0};    ///< the last issued run of that Plan
  uint32_t seen_[kQueueSlots] = {}; ///< steps, by the watchdog
  cudaStream_t reports_ = nullptr;  ///< for reports that follow replays
  bool isReportedBeside_ = false;   ///< there, since the stream of replays waited for it
};

} // namespace braid
