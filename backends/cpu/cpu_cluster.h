//===- backends/cpu/cpu_cluster.h - CPU ranks that are threads of one process -----------------===//
#pragma once

#include "backends/cpu/job_recorder.h"
#include "backends/cpu/queue/scheduler.h"
#include "runtime/job/in_process_group.h"

namespace braid {

class CpuCluster final : public Cluster {
public:
  /// Without a picker, worker threads run the queues.
  static Result<std::unique_ptr<Cluster>> create(const ClusterOptions &options, Picker picker,
                                                 const ObserverFactory &observe = {});
  ~CpuCluster() override;

  int64_t ranks() const override { return group_.size(); }
  Device &device(int64_t rank) override { return *devices_[rank]; }
  ControlPlane &control(int64_t rank) override { return controls_[rank]; }
  void setPlans(llvm::ArrayRef<Plan> plans) override { group_.setPlans(plans); }
  void forgetPlans(llvm::ArrayRef<Plan> plans) override { group_.forgetPlans(plans); }

private:
  CpuCluster(const ClusterOptions &options, Picker picker, const ObserverFactory &observe,
             JobMemory memory);
  Status start();
  void startScheduler(Picker picker);
  void showWaits();
  void wakeWorkers();

  JobMemory memory_;
  InProcessGroup group_;
  std::vector<std::unique_ptr<CommandObserver>> observers_;
  std::vector<std::unique_ptr<JobRecorder>> recorders_;
  std::vector<std::unique_ptr<CpuDevice>> devices_;
  std::vector<InProcessControl> controls_;
  std::unique_ptr<Scheduler> scheduler_; ///< null without a picker
};

} // namespace braid
