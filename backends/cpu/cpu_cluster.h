//===- backends/cpu/cpu_cluster.h - the CPU ranks of one process ------------------------------===//
#pragma once

#include "backends/cpu/job_recorder.h"
#include "backends/cpu/queue/scheduler.h"
#include "runtime/job/process_group.h"

namespace braid {

class CpuCluster final : public Cluster {
public:
  /// Creates all ranks of a job as threads. Without a picker, worker threads run the queues.
  static Result<std::unique_ptr<Cluster>> create(const ClusterOptions &options, Picker picker,
                                                 const ObserverFactory &observe = {});
  /// Creates one rank, whose peers are in other processes.
  static Result<std::unique_ptr<Cluster>> join(const ClusterOptions &options,
                                               std::unique_ptr<Client> client,
                                               const ObserverFactory &observe);
  /// Drops unfinished commands, and aborts the job if there were any. If the rank is a process, it
  /// leaves the job, which takes at most a few seconds.
  ~CpuCluster() override;

  int64_t ranks() const override { return parts_->group->size(); }
  int64_t firstHosted() const override { return parts_->group->ranksHere().first; }
  int64_t hosted() const override { return parts_->group->ranksHere().count; }
  std::optional<int64_t> ranksPerHost() const override;
  void setPlans(llvm::ArrayRef<Plan> plans) override { parts_->group->setPlans(plans); }
  void forgetPlans(llvm::ArrayRef<Plan> plans) override { parts_->group->forgetPlans(plans); }
  bool isStuck() const override { return parts_->group->isStuck(); }
  Device &device(int64_t rank) override {
    return parts_->ranks[static_cast<size_t>(rank - firstHosted())]->device;
  }
  ControlPlane &control(int64_t rank) override { return parts_->group->control(rank); }

private:
  struct Rank {
    Rank(RankGroup &group, CpuDevice::Options options, std::unique_ptr<CommandObserver> own);
    std::unique_ptr<CommandObserver> observer; ///< may be null
    JobRecorder recorder;
    CpuDevice device;
  };
  /// All state that a worker may access.
  struct Parts {
    std::optional<JobMemory> memory; ///< set if the ranks are threads
    std::unique_ptr<RankGroup> group;
    ProcessGroup *process = nullptr; ///< `group`, or null if all ranks are threads
    std::vector<std::unique_ptr<Rank>> ranks;
    std::unique_ptr<Scheduler> scheduler; ///< null without a picker
  };

  explicit CpuCluster(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
  static Result<std::unique_ptr<Cluster>> start(std::unique_ptr<Parts> parts,
                                                const ClusterOptions &options, Picker picker,
                                                const ObserverFactory &observe);
  void startScheduler(Picker picker);
  void showWaits();

  std::unique_ptr<Parts> parts_;
};

} // namespace braid
