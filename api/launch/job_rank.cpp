//===- api/launch/job_rank.cpp - one rank of a job of processes -------------------------------===//

#include "api/launch/job_rank.h"

#include "api/launch/children.h"
#include "ir/failure.h"
#include "runtime/job/job_view.h"

#include <exception>
#include <thread>

#include <unistd.h>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The time that the host waits for ranks that join after a failure, so that they learn of it.
constexpr milliseconds kForLateRanks{2000};
/// The part of the join time that is reserved for telling the ranks of this host that the host
/// could not reach the store.
constexpr milliseconds kForRanksOfHost{1000};
/// The time that the host waits for the ranks to leave. Ranks that leave later do not need it.
constexpr milliseconds kForLeaving{1000};
/// The time that the host waits for further processes that contradict a rank: a user who made this
/// mistake has often started several of them.
constexpr milliseconds kForContradictions{1000};

/// Returns how the rank failed. A process that dies is exiting before its descriptors are closed.
std::string explainDeath(const JobMemory &memory, int64_t rank) {
  uint32_t pid = memory.slot(rank).pid.load(std::memory_order_relaxed);
  bool isVisible = pid != 0; // otherwise it is in another pid namespace
  return !isVisible || isEnding(static_cast<pid_t>(pid))
             ? "died before the run was over"
             : "closed its connection to the job, but still runs";
}

/// `timeout` bounds how long hosts may take to join and how long they may be silent later.
Result<std::unique_ptr<OtherHosts>> joinOtherHosts(HostsStore &hosts, JobMemory &memory,
                                                   milliseconds timeout, Deadline deadline) {
  std::unique_ptr<Store> store = BRAID_TRY(hosts.connect(deadline));
  return OtherHosts::start(std::move(store), memory,
                           {.job = hosts.job(), .joinTimeout = timeout, .silence = timeout});
}

} // namespace

/// The state of the host, in the first rank on a host, if braid's launcher does not host the job.
struct JobRank::Host {
  Host(JobMemory made) : memory(std::move(made)) {}
  JobMemory memory;
  std::mutex mutex;
  KnownPlans plans; ///< guarded by mutex
  std::unique_ptr<Rendezvous> rendezvous;
  std::unique_ptr<OtherHosts> others; ///< null if the job is on one host

  /// `hosts` is null for a job on one host.
  static Result<std::unique_ptr<Host>> start(const Place &place, milliseconds timeout,
                                             HostsStore *hosts, Deadline deadline);
  std::string describe(int64_t rank) {
    std::lock_guard lock(mutex);
    return plans.empty() ? "" : JobView(memory, plans).rankText(rank);
  }
};

/// Starts the host. If the host cannot reach the other hosts, it tells its ranks why.
Result<std::unique_ptr<JobRank::Host>> JobRank::Host::start(const Place &place,
                                                            milliseconds timeout, HostsStore *hosts,
                                                            Deadline deadline) {
  JobMemory memory = BRAID_TRY(JobMemory::create(place.ranks, {place.host, place.hosts}));
  auto host = std::make_unique<Host>(std::move(memory));
  if (hosts) {
    const Deadline forHosts = deadline - std::min(kForRanksOfHost, timeout / 4);
    auto joined = joinOtherHosts(*hosts, host->memory, timeout, forHosts);
    if (!joined) {
      host->memory.decideHere();
      host->memory.abort({joined.status(), place.rank});
    } else {
      host->others = std::move(*joined);
    }
  }
  RendezvousPlace meeting =
      BRAID_TRY(place.ranks == 1 ? listenAnywhere()
                                 : listenForJob({place.job, place.rank, place.ranks}, deadline));
  host->rendezvous = BRAID_TRY(Rendezvous::start(
      std::move(meeting), host->memory,
      {.job = place.job,
       .ownRank = place.rank,
       .joinTimeout = timeout,
       .explainDeath =
           [host = host.get()](int64_t rank) { return braid::explainDeath(host->memory, rank); },
       .describe = [host = host.get()](int64_t rank) { return host->describe(rank); }}));
  return host;
}

/// Joins the host in this process. If this fails, ranks that have already joined are told why;
/// otherwise they would only see that the host is gone.
Result<std::unique_ptr<Client>> JobRank::joinOwn(Host &host, const ClientHello &hello,
                                                 Deadline deadline) {
  try {
    Result<std::unique_ptr<Client>> client = Client::join(host.rendezvous->name(), hello, deadline);
    if (!client)
      host.memory.abort({client.status(), hello.rank});
    return client;
  } catch (const std::exception &error) {
    host.memory.abort({peerFailed("rank {}: {}", hello.rank, error.what()), hello.rank});
    throw;
  }
}

/// Adds the host to the job's name, by which the ranks of one host find each other. Two hosts of a
/// job may be on one machine.
static Place ofThisHost(Place place) {
  if (place.hosts > 1)
    place.job += fmt::format(", host {}", place.host);
  return place;
}

Result<std::unique_ptr<JobRank>> JobRank::join(const Place &givenPlace, milliseconds givenTimeout) {
  BRAID_TRY(checkTimeLimit(givenTimeout));
  const milliseconds timeout = boundedTime(givenTimeout);
  Deadline deadline = deadlineIn(timeout);
  std::unique_ptr<HostsStore> store;
  if (givenPlace.hosts > 1)
    store = BRAID_TRY(HostsStore::open(givenPlace, processEnvironment(), deadline));
  const Place place = ofThisHost(givenPlace);
  ClientHello hello{place.job, place.rank, place.ranks};
  std::unique_ptr<Host> host;
  const bool isFirst = place.hosts > 1 ? place.localRank == 0 : place.rank == 0;
  if (place.meeting.empty() && isFirst)
    host = BRAID_TRY(Host::start(place, timeout, store.get(), deadline));
  std::unique_ptr<Client> client =
      BRAID_TRY(host                    ? joinOwn(*host, hello, deadline)
                : place.meeting.empty() ? Client::find(hello, deadline)
                                        : Client::join(place.meeting, hello, deadline));
  JobMemory memory = BRAID_TRY(
      JobMemory::map(FileDescriptor::duplicate(client->memory().descriptor()), place.ranks));
  std::unique_ptr<JobRank> rank(new JobRank(givenPlace, std::move(memory)));
  rank->joinDeadline_ = deadline;
  rank->store_ = std::move(store);
  rank->host_ = std::move(host);
  rank->client_ = std::move(client);
  return rank;
}

JobRank::JobRank(Place place, JobMemory memory)
    : place_(std::move(place)), memory_(std::move(memory)) {}

JobRank::~JobRank() { waitForOthers(); }

void JobRank::waitForOthers() {
  client_.reset();
  if (!host_ || std::exchange(hasWaited_, true))
    return;
  // If the host left now, ranks that have not joined yet would look for it until they time out.
  const bool isContradicted = host_->rendezvous->isContradicted();
  Deadline deadline =
      std::min(deadlineIn(isContradicted ? kForContradictions : kForLateRanks), joinDeadline_);
  // Host 0 also waits for ranks on other hosts.
  auto isAwaited = [this](int64_t rank) { return place_.host == 0 || memory_.isHere(rank); };
  for (int64_t rank = 0; rank < place_.ranks && Clock::now() < deadline;)
    if (isContradicted || (isAwaited(rank) && memory_.stateOf(rank) == RankState::Absent))
      std::this_thread::sleep_for(milliseconds(5));
    else
      ++rank;
  (void)host_->rendezvous->waitForAllToLeave(deadlineIn(kForLeaving));
}

void JobRank::setPlans(llvm::ArrayRef<Plan> plans) {
  if (!host_)
    return;
  std::lock_guard lock(host_->mutex);
  host_->plans.add(plans);
}

void JobRank::forgetPlans(llvm::ArrayRef<Plan> plans) {
  if (!host_)
    return;
  std::lock_guard lock(host_->mutex);
  host_->plans.remove(plans);
}

Status JobRank::fail(const Status &cause) {
  if (memory_.committed() == 0)
    return memory_.fail({cause, place_.rank});
  BRAID_TRY(memory_.failure());
  return cause;
}

} // namespace braid
