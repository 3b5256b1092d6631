//===- backends/cpu/cpu_rank.h - a CPU rank whose peers are other processes -------------------===//
#pragma once

#include "backends/cpu/cpu_device.h"
#include "backends/cpu/job_recorder.h"
#include "runtime/job/process_group.h"

namespace braid {

class CpuRank final : public Cluster {
public:
  static Result<std::unique_ptr<Cluster>> join(const ClusterOptions &options,
                                               std::unique_ptr<Client> client,
                                               const ObserverFactory &observe);
  /// Leaves the job. Drops commands that have not been synchronized, and aborts the job if there
  /// were any. Takes at most a few seconds.
  ~CpuRank() override;

  int64_t ranks() const override { return parts_->group.size(); }
  int64_t firstHosted() const override { return parts_->group.rank(); }
  int64_t hosted() const override { return 1; }
  std::optional<int64_t> ranksPerHost() const override {
    return parts_->group.memory().ranksPerHost();
  }
  void setPlans(llvm::ArrayRef<Plan> plans) override { parts_->group.setPlans(plans); }
  void forgetPlans(llvm::ArrayRef<Plan> plans) override { parts_->group.forgetPlans(plans); }
  bool isStuck() const override { return parts_->group.isStuck(); }
  Device &device(int64_t rank) override;
  ControlPlane &control(int64_t rank) override;

private:
  /// Everything that a worker may access.
  struct Parts {
    Parts(const ClusterOptions &options, std::unique_ptr<Client> client,
          const ObserverFactory &observe);
    void wakeWorkers() const;
    ProcessGroup group;
    std::unique_ptr<CommandObserver> observer; ///< may be null
    JobRecorder recorder;
    CpuDevice device;
  };
  explicit CpuRank(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

  std::unique_ptr<Parts> parts_;
};

} // namespace braid
