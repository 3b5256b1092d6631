//===- api/job.cpp - the ranks that run programs together -------------------------------------===//

#include "api/ranks/job_state.h"

#include "api/ranks/run.h"
#include "ir/failure.h"
#ifdef BRAID_HAS_CUDA
#include "backends/cuda/cuda_backend.h"
#endif

#include <fmt/ranges.h>

namespace braid {
namespace {

Result<Backend> findBackend(const std::string &name) {
  const BackendRegistry registry = builtinBackends();
  if (const Backend *backend = registry.find(name))
    return *backend;
  return unsupported("expected a backend of this build ({}), got '{}'",
                     fmt::join(registry.names(), ", "), name);
}

ClusterOptions clusterOptions(const JobOptions &options, int64_t ranks) {
  return {.ranks = ranks,
          .timeout = options.timeout,
          .scheduleSeed = options.scheduleSeed,
          .reproducible = options.reproducible};
}

/// A GPU that was asked for by number is the cuda backend's own matter.
Backend withDevice(Backend backend, [[maybe_unused]] const JobOptions &options) {
#ifdef BRAID_HAS_CUDA
  if (options.device && backend.name == "cuda")
    backend.join = [device = *options.device](const ClusterOptions &cluster,
                                              std::unique_ptr<Client> client) {
      return joinCuda(cluster, std::move(client), {.device = device});
    };
#endif
  return backend;
}

Result<Place> findOwnPlace(const JobOptions &options) {
  std::optional<Place> place = BRAID_TRY(findPlace(processEnvironment()));
  if (!place)
    return badInput("expected to be started as a rank, by torchrun, mpirun or srun, or with "
                    "BRAID_RANK and BRAID_RANKS set");
  if (options.ranks != 0 && options.ranks != place->ranks)
    return badInput("expected {} ranks, but {} says that there are {}", options.ranks,
                    place->source, place->ranks);
  return *place;
}

} // namespace

void Job::Impl::showPlans() {
  llvm::ArrayRef<Plan> plans;
  if (!sessions.empty())
    plans = sessions.back().plans;
  mesh->cluster().setPlans(plans);
  if (rank)
    rank->setPlans(plans);
}

Job::Job(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Job::~Job() = default;

Result<std::shared_ptr<Job>> Job::create(const JobOptions &options) {
  const Backend backend = BRAID_TRY(findBackend(options.backend));
  if (options.ranks < 1)
    return badInput("expected at least 1 rank, got {}", options.ranks);
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->mesh = BRAID_TRY(LocalMesh::create(backend, clusterOptions(options, options.ranks)));
  return std::shared_ptr<Job>(new Job(std::move(impl)));
}

Result<std::shared_ptr<Job>> Job::join(const JobOptions &options) {
  const Backend backend = withDevice(BRAID_TRY(findBackend(options.backend)), options);
  const Place place = BRAID_TRY(findOwnPlace(options));
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->rank = BRAID_TRY(JobRank::join(
      place, {.timeout = options.timeout, .endpoint = launchersEndpoint(processEnvironment())}));
  auto mesh =
      LocalMesh::join(backend, clusterOptions(options, place.ranks), impl->rank->takeClient());
  if (!mesh)
    return impl->rank->fail(mesh.status());
  impl->mesh = std::move(*mesh);
  return std::shared_ptr<Job>(new Job(std::move(impl)));
}

int64_t Job::ranks() const { return impl_->mesh->ranks(); }
int64_t Job::firstRank() const { return impl_->mesh->firstHosted(); }
int64_t Job::hosted() const { return impl_->mesh->hosted(); }

Result<void *> Job::stream(uint32_t number) {
  if (number >= kMaxStreams)
    return badInput("expected a stream below {}, got {}", kMaxStreams, number);
  void *stream = nullptr;
  for (int64_t i = 0; i < hosted(); ++i)
    stream = BRAID_TRY(impl_->mesh->device(firstRank() + i).callerStream(number));
  return stream;
}

Status Job::synchronize() { return impl_->mesh->synchronize(); }
Status Job::commit() {
  BRAID_TRY(synchronize());
  return impl_->mesh->commit();
}

Status Job::fail(const Status &cause) {
  const Status first = impl_->mesh->fail(cause);
  return impl_->rank ? impl_->rank->fail(first) : first;
}

JobUsage Job::usage() const {
  JobUsage usage{static_cast<int64_t>(impl_->sessions.size()), 0};
  for (const SessionPlans &each : impl_->sessions)
    usage.bytes += each.bytes;
  return usage;
}

} // namespace braid
