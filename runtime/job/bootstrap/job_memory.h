//===- runtime/job/bootstrap/job_memory.h - the shared state of a job's ranks on one host -----===//
//
// A few pages of anonymous shared memory, created by the hosting process and mapped by every rank.
// They store the state that must not depend on message delivery:
//
//  outcome       one atomic that records whether the job is aborted and how many steps have been
//                committed. It changes only by compare-and-swap, so there is a single first cause,
//                and no rank can report success for a run that another rank has aborted. Waiting
//                ranks poll it, so every live rank sees an abort before any wait is released. If
//                the job spans hosts, the hosts' store decides instead (other_hosts.h): an abort is
//                a proposal until this host has received the decision. If this host cannot reach
//                the store, this atomic decides for this host.
//  cause         the text of the first failure
//  rank slots    the state of each rank: heartbeat, host thread activity, current command of each
//                queue, progress counters. The slots of ranks on other hosts are copies, a few
//                tenths of a second old, with times on this host's clock and without process ids.
//  choice        the text of the schedule that rank 0 has chosen by measurement
//  all-gathers   each rank's part of the current and the previous all-gather. A rank that joins
//                all-gather n has read all parts of all-gather n - 1, so two buffers suffice. The
//                parts are stored in the same file, after the mapped pages, and accessed by file
//                I/O: the file grows on demand, and a lack of memory is reported as an error code.
//
// Apart from the outcome, worker threads access this memory only with relaxed atomics, so that the
// accesses do not order the ranks' streams. All ranks belong to one user and trust each other's
// writes; the length of each text is nevertheless checked against the size of its field.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"
#include "runtime/job/bootstrap/begun_runs.h"
#include "runtime/job/bootstrap/socket.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/Sequence.h"

#include <atomic>
#include <cassert>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace braid {

constexpr uint64_t inNs(std::chrono::nanoseconds time) {
  return static_cast<uint64_t>(time.count());
}
/// Returns the time of CLOCK_MONOTONIC, which all ranks on a host share.
inline uint64_t monotonicNs() { return inNs(std::chrono::steady_clock::now().time_since_epoch()); }

/// Commands are numbered across a job's programs; a Plan's numbers start at Plan::firstCommand.
inline constexpr uint32_t kNoCommand = ~0u;

enum class RankState : uint32_t {
  Absent, ///< has not joined
  Joined,
  Left, ///< disconnected
  Dead, ///< lost its connection without disconnecting
};

/// The activity of a rank's host thread.
enum class HostActivity : uint32_t {
  OwnCode,       ///< outside Braid, preparing a program, or issuing commands
  InAllGather,   ///< waiting for all ranks to join
  InSynchronize, ///< waiting for its device
  AskingHost,    ///< waiting for an answer from the process that hosts the job
  Committing,    ///< waiting for all ranks to complete the step
};

/// The state of one queue, written by the backend.
struct alignas(64) QueueSlot {
  std::atomic<uint64_t> completed; ///< number of completed commands
  std::atomic<uint64_t> current;   ///< run << 32 | command; ~0 between commands
  std::atomic<uint64_t> sinceNs;   ///< CLOCK_MONOTONIC at the last start or end of a command
  std::atomic<uint32_t> isWaiting; ///< whether the current command is blocked
  std::atomic<uint32_t> flagValue; ///< last observed value of the flag that the command waits for
  std::atomic<uint32_t> wantedValue;
  std::atomic<uint64_t> lastDone; ///< run << 32 | command; ~0 if there is none
};

inline constexpr uint32_t kQueueSlots = 32; ///< the state of additional queues is not recorded
inline constexpr size_t kCallEntries = 64;  ///< no rank gets this many calls ahead of another

struct RankSlot {
  std::atomic<RankState> state;
  std::atomic<uint32_t> pid;
  std::atomic<HostActivity> activity;
  std::atomic<uint32_t> queues; ///< number of entries of `queue` in use
  std::atomic<uint64_t> activitySinceNs;
  std::atomic<uint64_t> heartbeatNs;     ///< written by the watchdog
  std::atomic<uint64_t> issued;          ///< number of commands issued to all queues
  std::atomic<uint64_t> arrivals;        ///< number of progress events on the host thread
  std::atomic<uint64_t> completedBeyond; ///< commands completed on queues that have no slot
  std::atomic<uint32_t> runs;            ///< the epoch of the last issued run
  std::atomic<uint32_t> closed;          ///< futex; 1 once peer memory is unmapped
  /// Set if the launcher has killed the rank, which then never sets `closed` and may keep memory
  /// mapped until its process has exited.
  std::atomic<uint32_t> isKilled;
  /// Counts runs of programs whose ranks wait for signals from each other. Runs in the caller's
  /// graphs are counted once the GPU has reported them. Not available for ranks on other hosts.
  BegunRuns begunRuns;
  std::atomic<uint64_t> calls[kCallEntries]; ///< collective calls; see runtime/job/calls.h
  std::atomic<uint32_t> callCount;           ///< number of calls; written by the host thread
  std::atomic<uint32_t> hasUnseenRuns;       ///< whether the caller's graphs contain runs
  std::atomic<uint32_t> gathers;             ///< number of the last all-gather that the rank joined
  struct Part {
    std::atomic<uint64_t> bytes;
    std::atomic<uint32_t> step;              ///< last completed step; 0 if there is none
  } parts[2];                                ///< parts[n % 2] belongs to all-gather n
  alignas(64) std::atomic<uint32_t> barrier; ///< number of spin barriers entered
  QueueSlot queue[kQueueSlots];

  /// Called by the rank's host thread. Counts as progress.
  void setActivity(HostActivity now) {
    activitySinceNs.store(monotonicNs(), std::memory_order_relaxed);
    activity.store(now, std::memory_order_relaxed);
    tick();
  }
  void tick() { arrivals.fetch_add(1, std::memory_order_relaxed); }
  /// Returns the number of commands completed on all queues.
  uint64_t completed() const;
  /// Returns a counter that increases whenever this rank makes progress.
  uint64_t progress() const {
    return issued.load(std::memory_order_relaxed) + arrivals.load(std::memory_order_relaxed) +
           completed();
  }
};

/// The host to which a job memory belongs. All hosts have the same number of ranks, numbered
/// consecutively.
struct HostPlace {
  int64_t host = 0, hosts = 1;
};
/// The largest part that a rank may contribute to an all-gather, in bytes.
inline constexpr size_t kMaxPart = size_t(32) << 20;

/// A range of consecutive ranks.
struct Ranks {
  int64_t first, count;
  auto begin() const { return llvm::seq(first, first + count).begin(); }
  auto end() const { return llvm::seq(first, first + count).end(); }
};

/// Formats ranks, for example "rank 2" or "ranks 2, 3".
std::string nameRanks(llvm::ArrayRef<int64_t> ranks);

/// The reason why a job was aborted.
struct JobCause {
  Status status;     ///< the status that every rank returns
  int64_t rank = -1; ///< the rank that failed, or -1 for the host or an unknown rank
};

/// A mapping of a job's memory. Movable. Thread-safe.
class JobMemory {
public:
  /// Creates zeroed memory for `ranks` ranks. If the job spans several hosts, abort() only makes a
  /// proposal, and the hosts' store decides.
  static Result<JobMemory> create(int64_t ranks, const HostPlace &place = {});
  /// Maps an existing job's memory. Returns BadInput if its size or version is unexpected.
  static Result<JobMemory> map(FileDescriptor descriptor, int64_t ranks);
  int descriptor() const { return descriptor_.get(); }
  int64_t ranks() const { return layout_->ranks; }
  /// A random number, drawn at creation, that distinguishes jobs with the same name.
  uint64_t number() const { return layout_->number; }
  RankSlot &slot(int64_t rank) {
    assert(rank >= 0 && rank < ranks());
    return layout_->slots()[rank];
  }
  const RankSlot &slot(int64_t rank) const { return const_cast<JobMemory *>(this)->slot(rank); }
  RankState stateOf(int64_t rank) const { return slot(rank).state.load(std::memory_order_relaxed); }
  uint64_t progress() const; ///< sum over all ranks

  // -- Hosts. --

  int64_t host() const { return layout_->host; } ///< the index of this host
  int64_t ranksPerHost() const { return ranks() / hosts(); }
  int64_t hosts() const { return layout_->hosts; }
  /// Returns true if `rank` is on this host.
  bool isHere(int64_t rank) const { return rank / ranksPerHost() == host(); }
  Ranks ranksOf(int64_t host) const { return {host * ranksPerHost(), ranksPerHost()}; }
  Ranks allRanks() const { return {0, ranks()}; }
  /// An upper bound on the age of other hosts' state. Stalls shorter than this may be spurious.
  uint64_t roundTripNs() const { return layout_->roundTripNs.load(std::memory_order_relaxed); }
  void setRoundTripNs(uint64_t time) {
    layout_->roundTripNs.store(time, std::memory_order_relaxed);
  }

  // -- The outcome. --

  bool isAborted() const {
    return layout_->outcome.load(std::memory_order_relaxed).state == Outcome::Aborted;
  }
  /// Aborts the job. Returns true if this is the first failure; all ranks then see the abort
  /// together with its cause. Otherwise, cause() returns the first failure. Committed steps remain
  /// committed. Messages are truncated to 16 kB. If the job spans hosts, only proposes an abort,
  /// and returns true for the first proposal.
  bool abort(const JobCause &cause);
  /// Aborts the job, waits for the decision, and returns the first cause.
  Status fail(const JobCause &cause);
  /// Waits, after abort(), until this or another host has aborted the job. If no decision arrives
  /// within `patience` plus the time since the last contact with host 0, this host decides.
  void awaitDecision(std::chrono::milliseconds patience = std::chrono::seconds(10));
  /// Returns the first failure, or nullopt if there is none. Never blocks: if a process dies during
  /// abort(), either the job is not aborted or the cause is complete.
  std::optional<JobCause> cause() const { return causeIn(Outcome::Aborted); }
  /// Returns ok, or the status of the first failure.
  Status failure() const;
  /// Commits step `step` (1, 2, ...). Any process may call this once all ranks have completed the
  /// step. Returns true if the step is committed, by this call or an earlier one, and false if the
  /// job was aborted first.
  bool commit(uint32_t step);
  uint32_t committed() const { return layout_->outcome.load(std::memory_order_acquire).committed; }

  /// Returns this host's undecided proposal, or nullopt if there is none.
  std::optional<JobCause> proposal() const { return causeIn(Outcome::Proposed); }
  /// Aborts the job at once. Called when the hosts' store has decided to abort.
  void abortDecided(const JobCause &cause);
  /// Makes this host decide the outcome from now on, because the store is unreachable. Turns a
  /// pending proposal into an abort.
  void decideHere();

  // -- All-gathers, numbered from 1. Every rank joins all of them, in order. --

  /// Contributes `part` to the next all-gather of `rank`, which is on this host, and blocks until
  /// all ranks have contributed or the job is aborted; returns the cause of an abort. `step` is the
  /// last step that the rank has completed, or 0; committed() shows whether it has been committed.
  /// Needs no timeout, because the watchdog aborts a job that has stalled. Aborts the job if
  /// another rank on this host has left, because that rank will never contribute.
  Status meet(int64_t rank, const std::string &part, uint32_t step);
  /// Like meet() with step 0. Returns the parts of all ranks, in rank order.
  Result<std::vector<std::string>> allGather(int64_t rank, const std::string &part);
  /// Contributes `part` for `rank` to all-gather `number`. `step` is the last step that `rank` has
  /// completed, or 0. On a single host, the last rank to join finishes the all-gather. Returns
  /// BadInput if the part exceeds kMaxPart bytes, and Unsupported if memory is exhausted.
  Status bring(int64_t rank, uint32_t number, const std::string &part, uint32_t step);
  /// Returns true if all of `ranks` have joined all-gather `number`.
  bool haveCome(Ranks ranks, uint32_t number) const;
  /// Commits the last step that all ranks have completed, if any, and wakes all waiters. All ranks
  /// of the job must have contributed their parts. May be called repeatedly.
  void finishGather(uint32_t number);
  /// Returns the number of the last finished all-gather.
  uint32_t gathered() const { return layout_->gathered.load(std::memory_order_acquire); }
  /// Returns the parts of `ranks` in all-gather `number`. All of these ranks must have joined it.
  Result<std::vector<std::string>> parts(Ranks ranks, uint32_t number) const;
  uint32_t leastStep(Ranks ranks, uint32_t number) const;
  /// Sleeps until a rank on this host may have joined all-gather `number`, wake() is called, or
  /// `slice` has elapsed.
  void waitForRanks(uint32_t number, std::chrono::milliseconds slice) const;
  void wake();

  // -- The choice. --

  /// Publishes the text of the chosen schedule. Called once, by rank 0. Has no effect if the text
  /// is longer than 4 kB.
  void publishChoice(const std::string &text);
  /// Returns the published choice, or an empty string if there is none.
  std::string choice() const;

  /// A spinning barrier for this host's ranks, for timing only: all ranks return within about a
  /// microsecond of each other if each has a dedicated core. A long wait counts as a wait in an
  /// all-gather, so the watchdog ends it if the job stalls. Returns false if the job is aborted.
  bool spinUntilAllCome(int64_t rank);

private:
  /// Changed only by compare-and-swap.
  struct alignas(8) Outcome {
    enum State : uint8_t { Open, Proposed, Aborted };
    uint32_t committed = 0; ///< number of committed steps
    uint16_t cause = 0;     ///< index of the cause, unless the state is Open
    State state = Open;
    bool isElsewhere = false; ///< whether the hosts' store decides
  };
  static_assert(std::atomic<Outcome>::is_always_lock_free);
  /// The beginning of the shared memory. The ranks' slots follow it.
  struct Layout {
    /// The number of failures that can be recorded concurrently; only one of them becomes the first
    /// failure. Pages that are never written use no memory.
    static constexpr uint16_t kCauseSlots = 256;
    static constexpr uint32_t kChoiceBytes = 4096;
    /// A failure. Written before its index is visible to any process; immutable afterwards.
    struct Cause {
      int64_t rank;
      int32_t code;
      uint32_t length;
      char text[16368];
    };

    uint64_t magic;
    uint64_t number;
    int64_t ranks;
    int64_t host, hosts;
    std::atomic<uint64_t> roundTripNs;
    alignas(64) std::atomic<Outcome> outcome;
    alignas(64) std::atomic<uint32_t> causesTaken;
    alignas(64) Cause causes[kCauseSlots];
    std::atomic<uint32_t> arrivals;     ///< futex; counts the arrivals of all ranks at all-gathers
    std::atomic<uint32_t> gathered;     ///< futex; number of the last finished all-gather
    std::atomic<uint32_t> choiceLength; ///< written after `choice`
    char choice[kChoiceBytes];

    static size_t bytes(int64_t ranks) {
      return sizeof(Layout) + static_cast<size_t>(ranks) * sizeof(RankSlot);
    }
    RankSlot *slots() { return reinterpret_cast<RankSlot *>(this + 1); }
  };
  JobMemory(FileDescriptor descriptor, SharedMapping memory);
  static Result<JobMemory> mapFile(FileDescriptor descriptor, int64_t ranks);
  void changeOutcome(llvm::function_ref<bool(Outcome &outcome)> change);
  uint16_t writeCause(const JobCause &cause);
  JobCause readCause(uint16_t number) const;
  std::optional<JobCause> causeIn(Outcome::State state) const;
  int64_t placeOfPart(int64_t rank, uint32_t number) const;
  void abortIfSomebodyHasLeft(uint32_t number);
  FileDescriptor descriptor_;
  SharedMapping memory_;
  Layout *layout_; ///< the beginning of memory_
};

} // namespace braid
