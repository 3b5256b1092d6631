//===- tests/support/message_cluster.cpp - CPU ranks that send each other messages ------------===//

#include "tests/support/message_cluster.h"

#include "backends/cpu/cpu_backend.h"
#include "ir/failure.h"

namespace braid::test {
namespace {

/// Forwards all calls to another device, but fails to open message teams.
class DumbDevice final : public Device, public Messages {
public:
  explicit DumbDevice(Device &inner) : inner_(inner) {}

  Compute &compute() override { return inner_.compute(); }
  PeerMemory *peerMemory() override { return inner_.peerMemory(); }
  Messages *messages() override { return this; }
  Graphs *graphs() override { return inner_.graphs(); }
  Tracer *tracer() override { return inner_.tracer(); }
  Result<void *> allocate(ArenaKind kind, int64_t bytes) override {
    return inner_.allocate(kind, bytes);
  }
  Status reserveStreams(uint32_t count) override { return inner_.reserveStreams(count); }
  Result<uint32_t> createEvents(uint32_t count) override { return inner_.createEvents(count); }
  void release(void *base) override { inner_.release(base); }
  void releaseEvents(uint32_t first) override { inner_.releaseEvents(first); }
  void recycle() override { inner_.recycle(); }
  int64_t heldBytes() override { return inner_.heldBytes(); }
  Result<void *> callerStream(uint32_t number) override { return inner_.callerStream(number); }
  Status setCallerStream(void *stream, Tag tag) override {
    return inner_.setCallerStream(stream, tag);
  }
  void copy(uint32_t stream, Tag tag, void *dst, const void *src, int64_t bytes) override {
    inner_.copy(stream, tag, dst, src, bytes);
  }
  void record(uint32_t stream, Tag tag, uint32_t event) override {
    inner_.record(stream, tag, event);
  }
  void waitEvent(uint32_t stream, Tag tag, uint32_t event) override {
    inner_.waitEvent(stream, tag, event);
  }
  Status synchronize() override { return inner_.synchronize(); }

  /// Joins the collective call, so that the other ranks do not wait, and then fails.
  Status openTeams(llvm::ArrayRef<Team> teams, ControlPlane &control) override {
    BRAID_TRY(inner_.messages()->openTeams(teams, control));
    return peerFailed("this rank has no voice");
  }
  void group(uint32_t, Tag, llvm::ArrayRef<MessageArgs>) override {}
  void collective(uint32_t, Tag, const CollectiveArgs &) override {}

private:
  Device &inner_;
};

class DumbCluster final : public Cluster {
public:
  DumbCluster(std::unique_ptr<Cluster> inner, int64_t dumb)
      : inner_(std::move(inner)), dumb_(dumb), device_(inner_->device(dumb)) {}
  int64_t ranks() const override { return inner_->ranks(); }
  void setPlans(llvm::ArrayRef<Plan> plans) override { inner_->setPlans(plans); }
  void forgetPlans(llvm::ArrayRef<Plan> plans) override { inner_->forgetPlans(plans); }
  bool isStuck() const override { return inner_->isStuck(); }
  Device &device(int64_t rank) override {
    return rank == dumb_ ? static_cast<Device &>(device_) : inner_->device(rank);
  }
  ControlPlane &control(int64_t rank) override { return inner_->control(rank); }

private:
  std::unique_ptr<Cluster> inner_;
  const int64_t dumb_;
  DumbDevice device_;
};

} // namespace

Backend messageBackend(int64_t dumb) {
  BackendRegistry registry;
  registerCpuBackend(registry);
  Backend backend = *registry.find("cpu");
  backend.name = "messages";
  backend.transport = Transport::Messages;
  if (dumb < 0)
    return backend;
  backend.create = [create = backend.create,
                    dumb](const ClusterOptions &options) -> Result<std::unique_ptr<Cluster>> {
    std::unique_ptr<Cluster> inner = BRAID_TRY(create(options));
    return std::unique_ptr<Cluster>(std::make_unique<DumbCluster>(std::move(inner), dumb));
  };
  return backend;
}

} // namespace braid::test
