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

/// The time that the host waits, after a failure, for ranks that have not joined yet, in order to
/// report the failure to them.
constexpr milliseconds kForLateRanks{2000};
/// The part of the join timeout that is reserved for telling the ranks on this machine that their
/// host could not reach the store.
constexpr milliseconds kForRanksOfHost{1000};
/// The time that the host waits for ranks to leave. Ranks that leave later do not need the host.
constexpr milliseconds kForLeaving{1000};
/// The time that the host waits for further processes that disagree with a rank: a user who makes
/// this mistake often starts several conflicting processes.
constexpr milliseconds kForContradictions{1000};

/// Describes how the rank failed. The kernel marks a dying process before closing its sockets.
std::string explainDeath(const JobMemory &memory, int64_t rank) {
  uint32_t pid = memory.slot(rank).pid.load(std::memory_order_relaxed);
  bool isVisible = pid != 0; // 0: the process is in another pid namespace
  return !isVisible || isEnding(static_cast<pid_t>(pid))
             ? "died before the run had finished"
             : "closed its connection to the job, but is still running";
}

} // namespace

/// `timeout_` limits both how long hosts may take to join and how long they may be silent later.
Status JobRank::joinOtherHosts() {
  const Deadline deadline = joinDeadline_ - std::min(kForRanksOfHost, timeout_ / 4);
  std::unique_ptr<Store> store = BRAID_TRY(store_->connect(deadline));
  others_ = BRAID_TRY(
      OtherHosts::start(std::move(store), *memory_,
                        {.job = place_.job, .joinTimeout = timeout_, .silence = timeout_}));
  return Status::ok();
}

/// Makes this rank, the first on its machine, a host. If it cannot reach the other hosts, aborts
/// the ranks on this machine with the reason.
Status JobRank::startHost(const std::string &job) {
  memory_ = std::make_shared<JobMemory>(
      BRAID_TRY(JobMemory::create(place_.ranks, {place_.host, place_.hosts})));
  if (Status joined = store_ ? joinOtherHosts() : Status::ok(); !joined.isOk()) {
    memory_->decideHere();
    memory_->abort({joined, place_.rank});
  }
  // If the job has only one rank, no other rank needs to find its host.
  const std::string listensAs = place_.ranks == 1 ? BRAID_TRY(randomName()) : job;
  RendezvousPlace meeting =
      BRAID_TRY(listenForJob({listensAs, place_.rank, place_.ranks}, joinDeadline_));
  memory_->slot(place_.rank).pid.store(static_cast<uint32_t>(getpid()), std::memory_order_relaxed);
  rendezvous_ = BRAID_TRY(Rendezvous::start(
      std::move(meeting), *memory_,
      {.job = job,
       .joinTimeout = timeout_,
       .explainDeath = [this](int64_t rank) { return braid::explainDeath(*memory_, rank); },
       .describe =
           [this](int64_t rank) {
             std::lock_guard lock(plans_.mutex);
             return plans_.empty() ? "" : JobView(*memory_, plans_).rankText(rank);
           }}));
  return Status::ok();
}

/// Joins the host in this process. If joining fails, aborts the job with the reason, because ranks
/// that have already joined would otherwise see only that the host disappears.
Result<std::unique_ptr<Client>> JobRank::joinOwn(const ClientHello &hello) {
  try {
    auto client = Client::join(rendezvous_->name(), hello, joinDeadline_);
    if (!client)
      memory_->abort({client.status(), hello.rank});
    return client;
  } catch (const std::exception &error) {
    memory_->abort({peerFailed("rank {}: {}", hello.rank, error.what()), hello.rank});
    throw;
  }
}

Result<std::unique_ptr<JobRank>> JobRank::join(const Place &place, milliseconds timeout) {
  BRAID_TRY(checkTimeLimit(timeout));
  std::unique_ptr<JobRank> rank(new JobRank(place, boundedTime(timeout)));
  const Deadline deadline = rank->joinDeadline_;
  // Ranks find their host by this name. One machine may run two hosts of the same job.
  ClientHello hello{place.job, place.rank, place.ranks};
  if (place.hosts > 1) {
    rank->store_ = BRAID_TRY(HostsStore::open(place, processEnvironment(), deadline));
    hello.job += fmt::format(", host {}", place.host);
  }
  const bool isFirst = place.hosts > 1 ? place.localRank == 0 : place.rank == 0;
  if (place.meeting.empty() && isFirst)
    BRAID_TRY(rank->startHost(hello.job));
  rank->client_ = BRAID_TRY(rank->isHost()          ? rank->joinOwn(hello)
                            : place.meeting.empty() ? Client::find(hello, deadline)
                                                    : Client::join(place.meeting, hello, deadline));
  if (!rank->memory_)
    rank->memory_ = rank->client_->sharedMemory();
  rank->mayWait_ = true;
  return rank;
}

JobRank::~JobRank() { waitForOthers(); }

void JobRank::waitForOthers() {
  client_.reset();
  if (!rendezvous_ || !std::exchange(mayWait_, false))
    return;
  // If the host left now, ranks that join later would search for the host until they time out.
  const bool isContradicted = rendezvous_->isContradicted();
  Deadline deadline =
      std::min(deadlineIn(isContradicted ? kForContradictions : kForLateRanks), joinDeadline_);
  // Host 0 also waits for ranks on other hosts.
  auto isAwaited = [this](int64_t rank) { return place_.host == 0 || memory_->isHere(rank); };
  for (int64_t rank = 0; rank < place_.ranks && Clock::now() < deadline;)
    if (isContradicted || (isAwaited(rank) && memory_->stateOf(rank) == RankState::Absent))
      std::this_thread::sleep_for(milliseconds(5));
    else
      ++rank;
  (void)rendezvous_->waitForAllToLeave(deadlineIn(kForLeaving));
}

} // namespace braid
