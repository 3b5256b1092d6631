//===- backends/cpu/cpu_cluster.h - the ranks of one process, connected -----------------------===//
#pragma once

#include "backends/cpu/queue/scheduler.h"
#include "runtime/job/in_process_group.h"

namespace braid {

class CpuCluster final : public Cluster {
public:
  /// Without a picker the queues have workers.
  static Result<std::unique_ptr<Cluster>> create(const ClusterOptions &options, Picker picker,
                                                 const ObserverFactory &observe = {});
  ~CpuCluster() override;

  int64_t ranks() const override { return group_.size(); }
  Device &device(int64_t rank) override { return *devices_[rank]; }
  ControlPlane &control(int64_t rank) override { return controls_[rank]; }
  /// See the function of that name.
  Status synchronizeAll() { return group_.waitForAllDevices(); }

private:
  CpuCluster(const ClusterOptions &options, Picker picker, const ObserverFactory &observe);
  Status start();
  void startScheduler(Picker picker);
  std::vector<bool> runScheduled();
  GroupProgress progress() const;
  void wakeWorkers();
  std::string stallReport(std::string headline) const;
  /// The places of hosts that are not in synchronize, though others may wait for them.
  std::vector<std::string> absences() const;

  InProcessGroup group_;
  std::vector<std::unique_ptr<CommandObserver>> observers_;
  const bool isScheduled_;
  std::vector<std::unique_ptr<CpuDevice>> devices_;
  std::vector<InProcessControl> controls_;
  std::unique_ptr<Scheduler> scheduler_; ///< if isScheduled_
};

} // namespace braid
