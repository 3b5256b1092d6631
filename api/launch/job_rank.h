//===- api/launch/job_rank.h - one rank of a job of processes ---------------------------------===//
//
// findPlace() determines this process's rank. The calls are the same for all launchers:
//
//   auto rank = JobRank::join(*place, timeout);
//   ... compile, and pass any failure to (*rank)->fail() ...
//   auto job = JobState::join(backend, clusterOptions, std::move(*rank));   // takes the client
//   Result<RunReport> report = run(**job, compiled, plans, runOptions);
//
// If braid's launcher started the ranks, the launcher hosts the job and listens on the socket named
// by BRAID_MEETING. Otherwise, rank 0 hosts the job, and the other ranks find its socket by the
// job's name. If the job spans several machines, the first rank on each machine hosts the ranks on
// that machine, and the hosts communicate through a store: see runtime/job/network/hosts_store.h.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/client.h"
#include "runtime/job/bootstrap/environment.h"
#include "runtime/job/bootstrap/other_hosts.h"
#include "runtime/job/bootstrap/rendezvous.h"
#include "runtime/job/job_view.h"
#include "runtime/job/network/hosts_store.h"

#include <memory>

namespace braid {

class JobRank {
public:
  /// Blocks until the host has registered this rank and, if the job spans several machines, has
  /// connected to the store. Other ranks may join later, within `timeout`. Returns TimedOut if no
  /// host is found in time, and BadInput if `timeout` is below 1 ms or this rank disagrees with a
  /// registered rank (see rendezvous.h). Like any failure, a disagreement may abort the job.
  static Result<std::unique_ptr<JobRank>>
  join(const Place &place, std::chrono::milliseconds timeout = std::chrono::seconds(60));
  /// Leaves the job, then calls waitForOthers().
  ~JobRank();
  JobRank(const JobRank &) = delete;

  /// Returns true if this process hosts the job, or the job's ranks on this machine.
  bool isHost() const { return rendezvous_ != nullptr; }
  /// The memory that all ranks of the job share. Remains valid after the client is destroyed.
  JobMemory &memory() { return *memory_; }
  /// Passes the client to the caller. Call only once. The client's destructor disconnects it.
  std::unique_ptr<Client> takeClient() { return std::move(client_); }
  /// The Plans that messages about failed ranks refer to, as with Cluster::setPlans().
  KnownPlans &plans() { return plans_; }

  /// Records `cause` as the failure of all ranks, unless a rank failed earlier or the run is
  /// committed. Returns the recorded failure.
  Status fail(const Status &cause) { return memory_->fail({cause, place_.rank}); }
  /// If this process is the host, waits a limited time for the other ranks to leave or die. The
  /// caller must first destroy all objects that use this rank's client.
  void waitForOthers();

private:
  JobRank(const Place &place, std::chrono::milliseconds timeout)
      : place_(place), timeout_(timeout), joinDeadline_(deadlineIn(timeout)) {}
  Status joinOtherHosts();
  Status startHost(const std::string &job);
  Result<std::unique_ptr<Client>> joinOwn(const ClientHello &hello);

  const Place place_;
  const std::chrono::milliseconds timeout_;
  const Deadline joinDeadline_;
  std::shared_ptr<JobMemory> memory_; ///< set by join()
  KnownPlans plans_;
  bool mayWait_ = false;              ///< true from the success of join() until waitForOthers()
  std::unique_ptr<HostsStore> store_; ///< null if the job is on one host
  std::unique_ptr<Rendezvous> rendezvous_; ///< null if another process is the host
  std::unique_ptr<OtherHosts> others_;     ///< null if `store_` or `rendezvous_` is null
  std::unique_ptr<Client> client_;
};

} // namespace braid
