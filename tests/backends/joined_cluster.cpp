//===- tests/backends/joined_cluster.cpp - ranks that join a job, all in this process ---------===//

#include "tests/backends/joined_cluster.h"

#include "runtime/job/bootstrap/client.h"
#include "runtime/job/bootstrap/rendezvous.h"

#include <thread>

namespace braid::test {

namespace {

class JoinedCluster final : public Cluster {
public:
  static Result<std::unique_ptr<Cluster>> create(const Backend &backend,
                                                 const ClusterOptions &options) {
    Result<JobMemory> memory = JobMemory::create(options.ranks);
    if (!memory)
      return memory.status();
    std::unique_ptr<JoinedCluster> cluster(new JoinedCluster(std::move(*memory)));
    if (Status status = cluster->open(); !status.isOk())
      return status;
    if (Status status = cluster->joinAll(backend, options); !status.isOk())
      return status;
    return std::unique_ptr<Cluster>(std::move(cluster));
  }
  ~JoinedCluster() override {
    // Destroys each cluster on a separate thread, because clusters wait for each other.
    onEveryRank([this](size_t rank) { clusters_[rank].reset(); });
  }

  int64_t ranks() const override { return static_cast<int64_t>(clusters_.size()); }
  void setPlans(llvm::ArrayRef<Plan> plans) override {
    for (std::unique_ptr<Cluster> &cluster : clusters_)
      cluster->setPlans(plans);
  }
  Device &device(int64_t rank) override { return clusters_[rank]->device(rank); }
  ControlPlane &control(int64_t rank) override { return clusters_[rank]->control(rank); }

private:
  explicit JoinedCluster(JobMemory memory) : memory_(std::move(memory)) {}

  Status open() {
    Result<RendezvousPlace> place =
        listenForJob({.job = *randomName()}, deadlineIn(std::chrono::seconds(30)));
    if (!place)
      return place.status();
    // Stragglers are not killed, because all ranks are in this process.
    Result<std::unique_ptr<Rendezvous>> rendezvous =
        Rendezvous::start(std::move(*place), memory_, {.job = "test"});
    if (!rendezvous)
      return rendezvous.status();
    rendezvous_ = std::move(*rendezvous);
    return Status::ok();
  }

  Status joinAll(const Backend &backend, const ClusterOptions &options) {
    clusters_.resize(options.ranks);
    std::vector<Status> outcomes(options.ranks);
    onEveryRank([&](size_t rank) {
      ClientHello hello{"test", static_cast<int64_t>(rank), options.ranks};
      Result<std::unique_ptr<Client>> client =
          Client::join(rendezvous_->name(), hello, deadlineIn(std::chrono::seconds(60)));
      if (!client) {
        outcomes[rank] = client.status();
        return;
      }
      Result<std::unique_ptr<Cluster>> cluster = backend.join(options, std::move(*client));
      outcomes[rank] = cluster.status();
      if (cluster)
        clusters_[rank] = std::move(*cluster);
    });
    for (const Status &outcome : outcomes)
      if (!outcome.isOk())
        return outcome;
    return Status::ok();
  }

  void onEveryRank(const std::function<void(size_t)> &body) {
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < clusters_.size(); ++rank)
      threads.emplace_back(body, rank);
    for (std::thread &thread : threads)
      thread.join();
  }

  JobMemory memory_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::vector<std::unique_ptr<Cluster>> clusters_;
};

} // namespace

Result<std::unique_ptr<Cluster>> joinAll(const Backend &backend, const ClusterOptions &options) {
  if (!backend.join)
    return Status(StatusCode::Unsupported,
                  "backend '" + backend.name + "' cannot run ranks as separate processes");
  return JoinedCluster::create(backend, options);
}

} // namespace braid::test
