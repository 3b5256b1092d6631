//===- api/launch/job_rank.h - being one rank of a job of processes ---------------------------===//
//
//   findPlace() says which rank this process is. Then, whoever started it:
//
//   auto rank = JobRank::join(*place, timeout);
//   ... compile; what fails goes to (*rank)->fail() ...
//   Result<RunReport> report = run(compiled, plans, backend, options, (*rank)->takeClient());
//
// If braid's own launcher started the ranks, it hosts the job, and BRAID_MEETING says where. Else
// rank 0 does, in a place that the others find by the job's name. A job of one rank has no others.
// If there are several hosts, the first rank of each hosts its part of the job, and these meet in a
// store: see runtime/job/network/hosts_store.h.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/client.h"
#include "runtime/job/bootstrap/environment.h"
#include "runtime/job/bootstrap/other_hosts.h"
#include "runtime/job/bootstrap/rendezvous.h"
#include "runtime/job/network/hosts_store.h"
#include "runtime/plan/plan.h"

#include <functional>

namespace braid {

/// The treatment by rank 0 of ranks that go on a second after the job has failed.
enum class Stragglers : uint8_t {
  Kill,  ///< their processes were started for this job
  Leave, ///< their processes belong to others
};

class JobRank {
public:
  /// Blocks until this rank is known to the host, and that has reached the store of the hosts; the
  /// other ranks may be yet to come, all of them within `timeout`. TimedOut if there is no host in
  /// time; BadInput for less than 1 ms, and if this rank contradicts one that is known, see
  /// rendezvous.h. Like any failure of another rank, such a contradiction may also have aborted the
  /// job when this returns.
  static Result<std::unique_ptr<JobRank>>
  join(const Place &place, std::chrono::milliseconds timeout = std::chrono::seconds(60),
       Stragglers stragglers = Stragglers::Kill);
  /// Leaves the job, then waitForOthers().
  ~JobRank();
  JobRank(const JobRank &) = delete;

  const Place &place() const { return place_; }
  /// This process hosts the job, or the part of it that is on this host.
  bool isHost() const { return host_ != nullptr; }
  /// The time that join() took.
  double joinSeconds() const { return joinSeconds_; }
  /// The memory that all ranks of the job see; stays when the client is gone.
  JobMemory &memory() { return memory_; }
  /// For timing, see JobMemory::spinUntilAllCome(). This outlives it.
  std::function<bool()> barrier() {
    return [this] { return memory_.spinUntilAllCome(place_.rank); };
  }
  /// Once. What it is given to disconnects.
  std::unique_ptr<Client> takeClient() { return std::move(client_); }
  /// For messages about ranks that died; as Cluster::setPlans and forgetPlans. They outlive this.
  void setPlans(llvm::ArrayRef<Plan> plans);
  void forgetPlans(llvm::ArrayRef<Plan> plans);

  /// Makes `cause` that of all ranks, unless one failed before or the run has been committed, and
  /// returns the one that came first.
  Status fail(const Status &cause);
  /// If this process is the host, waits until the other ranks have left, died or been killed, but
  /// not for long: after a failure they are killed soon. What this rank's client was taken for has
  /// to have ended.
  void waitForOthers();

private:
  struct Host;
  JobRank(Place place, JobMemory memory);
  static Result<std::unique_ptr<Client>> joinOwn(Host &host, const ClientHello &hello,
                                                 Deadline deadline);

  const Place place_;
  JobMemory memory_;
  Deadline joinDeadline_;
  double joinSeconds_ = 0;
  bool hasWaited_ = false;
  std::unique_ptr<HostsStore> store_; ///< null: there is one host
  std::unique_ptr<Host> host_;        ///< null: it is elsewhere
  std::unique_ptr<Client> client_;
};

} // namespace braid
