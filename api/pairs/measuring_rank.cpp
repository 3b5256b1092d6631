//===- api/pairs/measuring_rank.cpp - being one rank of a job that measures -------------------===//

#include "api/pairs/measuring_rank.h"

#include "api/launch/job_rank.h"
#include "api/pairs/pair_meter.h"
#include "api/ranks/mesh.h"
#include "ir/failure.h"
#include "runtime/files.h"

#include <cstdlib>

namespace braid {
namespace {

constexpr size_t kMostJobBytes = size_t(16) << 20;

/// A device has a line; "-" stands for an identity that it has not got.
std::string lineOfDevice(int64_t number, const Device &device) {
  Measurement line;
  line.kind = Measurement::Kind::Device;
  line.source = number;
  const std::string identity = device.identity();
  line.text = (identity.empty() ? "-" : identity) + " " + device.description();
  return line.encode();
}

Status measureIn(JobRank &rank, const MeasuringJob &job, const Backend &backend, int results) {
  const int64_t number = rank.place().rank;
  ClusterOptions options{.ranks = rank.place().ranks,
                         .timeout = std::chrono::milliseconds(job.timeoutMs)};
  TimedPlans plans; // outlives the devices
  auto mesh = BRAID_TRY(LocalMesh::join(backend, options, rank.takeClient()));
  Device &device = mesh->device(number);
  (void)writeAll(results, lineOfDevice(job.devices[static_cast<size_t>(number)], device));
  // Where the host's own cores copy, a barrier that spins would take one from them.
  const Barrier barrier = device.sharesHostMemory() ? nullptr : Barrier(rank.barrier());
  PairMeter meter(job, backend, mesh->cluster(), number, plans, barrier, results);
  Status status = meter.measure();
  if (status.isOk())
    status = mesh->commit();
  if (!status.isOk())
    status = mesh->fail(status);
  if (mesh->isStuck()) // a transfer that never ends still uses what is here
    std::_Exit(static_cast<int>(status.code()));
  return status;
}

} // namespace

Status measureAsRank(const BackendRegistry &backends, int results) {
  const std::string text = BRAID_TRY(readFile("-", kMostJobBytes));
  const MeasuringJob job = BRAID_TRY(MeasuringJob::decode(text));
  const Backend *backend = backends.find(job.backend);
  Result<std::optional<Place>> place = findPlace(processEnvironment());
  if (!backend || !place || !*place || (*place)->ranks != static_cast<int64_t>(job.devices.size()))
    return badInput("expected to be one rank of a job that measures");
  std::unique_ptr<JobRank> rank =
      BRAID_TRY(JobRank::join(**place)); // the launcher sees to it that it ends
  Status status = measureIn(*rank, job, *backend, results);
  return status.isOk() ? status : rank->fail(status);
}

} // namespace braid
