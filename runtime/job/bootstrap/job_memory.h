//===- runtime/job/bootstrap/job_memory.h - what all ranks of a job on one host see -----------===//
//
// A few pages of anonymous shared memory, made by the job's host and mapped by every rank. They
// hold what must not depend on messages getting through:
//
//   the outcome   one word that says whether the job has been aborted, and how many steps of it
//                 have been committed. It changes by compare-and-swap only, so there is one first
//                 cause and no rank can call a run successful that another one calls aborted. An
//                 abort is visible to every live rank, stopped ones included, the moment it
//                 happens: before any wait is released, because a rank that waits looks here.
//                 Of a job on several hosts, their store decides, see other_hosts.h: an abort is a
//                 proposal until this host has heard what was decided, or is cut off from the
//                 store. Then this word decides for this host.
//   the cause     the text of the first failure
//   rank slots    where each rank is: heartbeat, what its host thread does, what each of its queues
//                 runs, counters of progress. Those of other hosts' ranks are copies, some tenths
//                 of a second old, with times of this host's clock, and have no process id.
//   flight rings  the last commands of each rank, with times. They survive the rank.
//   the choice    the text of the schedule that rank 0 has chosen by measuring
//   all-gathers   what each rank says in the all-gather that is going on, and in the one before. A
//                 rank that has come to number n has read all of number n - 1, so two are enough.
//                 The texts lie in the file behind the mapped pages, and are read and written there
//                 as in any file: the file grows with them, and a lack of memory is an error code.
//
// All accesses are relaxed atomics but those of the outcome, so that nothing here orders the ranks'
// streams. Ranks are of one user and trust each other's writes; text that is read here is bounded
// by its field all the same.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"
#include "runtime/job/bootstrap/begun_runs.h"
#include "runtime/job/bootstrap/socket.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace braid {

/// Commands are numbered by Plan::firstCommand, through all programs that a job has.
inline constexpr uint32_t kNoCommand = ~0u;

enum class RankState : uint32_t {
  Absent, ///< has not joined
  Joined,
  Left, ///< disconnected
  Dead, ///< its connection ended without one
};

/// The activity of a rank's host thread.
enum class HostActivity : uint32_t {
  OwnCode,       ///< not in Braid, or issuing
  Preparing,     ///< allocating, exchanging
  InAllGather,   ///< until all have come
  InSynchronize, ///< until its device is done
  Committing,    ///< until all are known to be done
};

/// The state of one queue. Written by its worker.
struct alignas(64) QueueSlot {
  std::atomic<uint64_t> completed; ///< commands
  std::atomic<uint64_t> current;   ///< run << 32 | command; ~0: between commands
  std::atomic<uint64_t> sinceNs;   ///< CLOCK_MONOTONIC: when it began the current command, or
                                   ///< ended the last one
  std::atomic<uint32_t> isWaiting; ///< the current command waits for a flag or an event
  std::atomic<uint32_t> flagValue; ///< value of that flag when it was last looked at
  std::atomic<uint32_t> wantedValue;
  std::atomic<uint64_t> lastDone; ///< run << 32 | command; ~0: none
};

/// A command that began; it has ended if endNs is not 0.
struct FlightEntry {
  std::atomic<uint64_t> sequence; ///< 1, 2, ... on its rank; written last; 0: nothing here
  std::atomic<uint64_t> command;  ///< run << 32 | command
  std::atomic<uint64_t> beginNs, endNs;
};

inline constexpr uint32_t kQueueSlots = 32;     ///< further queues are not shown
inline constexpr uint32_t kFlightEntries = 512; ///< a power of two

inline constexpr size_t kCallEntries = 64; ///< more than a rank can be ahead of its peers

struct RankSlot {
  std::atomic<RankState> state;
  std::atomic<uint32_t> pid;
  std::atomic<HostActivity> activity;
  std::atomic<uint32_t> queues; ///< number of entries of `queue` in use
  std::atomic<uint64_t> activitySinceNs;
  std::atomic<uint64_t> heartbeatNs;     ///< the watchdog's
  std::atomic<uint64_t> issued;          ///< commands, of all queues
  std::atomic<uint64_t> arrivals;        ///< steps of the host thread: joins, gathers, runs, ticks;
                                         ///< also its steps within a command
  std::atomic<uint64_t> completedBeyond; ///< commands of queues beyond those shown
  std::atomic<uint32_t> runs;            ///< issued: the epoch of the last one
  std::atomic<uint64_t> flightNext;      ///< sequence number of the next entry, from 1
  std::atomic<uint32_t> isSpeaking;      ///< it is writing its part of an all-gather
  std::atomic<uint32_t> closed;          ///< holds no memory of its peers any more; a futex
  std::atomic<uint32_t> isKilled; ///< by the host, because it was stopped: it will not close, and
                                  ///< holds what it has until its process has gone
  /// Counts programs whose ranks wait for each other's memory. Runs in graphs of the caller's count
  /// when the GPU has reported them. Not known of other hosts' ranks.
  BegunRuns begunRuns;
  std::atomic<uint64_t> calls[kCallEntries]; ///< that all ranks make alike; see runtime/job/calls.h
  std::atomic<uint32_t> callCount;           ///< so far; its host thread's
  std::atomic<uint32_t> hasUnseenRuns; ///< graphs of the caller's have runs, so `calls` lacks some
  std::atomic<uint32_t> gathers;       ///< number of the last all-gather that it has come to
  struct Part {
    std::atomic<uint64_t> bytes;
    std::atomic<uint32_t> step;              ///< that the rank has done; 0: none
  } parts[2];                                ///< parts[n % 2] is of all-gather n
  alignas(64) std::atomic<uint32_t> barrier; ///< number of spinning barriers it has come to
  QueueSlot queue[kQueueSlots];
  FlightEntry flight[kFlightEntries];

  void setActivity(HostActivity now);
  /// Commands of all queues.
  uint64_t completed() const;
  /// Grows with everything that this rank gets done.
  uint64_t progress() const;
};

/// Which of a job's hosts a memory is of. Hosts have equally many ranks, with consecutive numbers.
struct HostPlace {
  int64_t host = 0, hosts = 1;
};
/// Bytes of one rank's part of an all-gather.
inline constexpr size_t kMaxPart = size_t(32) << 20;

/// Ranks with consecutive numbers.
struct Ranks {
  int64_t first, count;
};

/// Why a job was aborted.
struct JobCause {
  Status status;     ///< the result of every rank
  int64_t rank = -1; ///< that failed, or -1: the host, or unknown
};

/// Maps the memory for as long as it lives. Movable. All functions may be called by any thread.
class JobMemory {
public:
  /// Zeroed memory for `ranks` ranks, which cannot shrink. If there are several hosts,
  /// the outcome is decided elsewhere.
  static Result<JobMemory> create(int64_t ranks, const HostPlace &place = {});
  /// BadInput if the descriptor is not of such memory: size, seals and version are looked at.
  static Result<JobMemory> map(FileDescriptor descriptor, int64_t ranks);
  JobMemory(JobMemory &&) noexcept;
  JobMemory &operator=(JobMemory &&) = delete;
  ~JobMemory();

  int descriptor() const { return descriptor_.get(); }
  int64_t ranks() const;
  /// Drawn when the memory was made: tells apart jobs of one name.
  uint64_t number() const;
  RankSlot &slot(int64_t rank);
  const RankSlot &slot(int64_t rank) const;
  RankState stateOf(int64_t rank) const { return slot(rank).state.load(std::memory_order_relaxed); }
  uint64_t progress() const; ///< sum over all ranks

  // -- Hosts. --

  HostPlace place() const;
  int64_t host() const; ///< this one
  int64_t ranksPerHost() const { return ranks() / hosts(); }
  int64_t hosts() const;
  /// `rank` is on this host.
  bool isHere(int64_t rank) const;
  Ranks ranksOf(int64_t host) const { return {host * ranksPerHost(), ranksPerHost()}; }
  Ranks allRanks() const { return {0, ranks()}; }
  /// The offset of host 0's clock to this host's; right to within `clockErrorNs`.
  struct Network {
    int64_t clockOffsetNs = 0;
    uint64_t clockErrorNs = 0;
    /// Since other hosts were heard, at most: standing still for less than that means nothing.
    uint64_t roundTripNs = 0;
  };
  Network network() const;
  void setNetwork(const Network &network);

  // -- The outcome. --

  bool isAborted() const;
  /// True if this is the first failure; everybody sees it, and its cause, from then on. Steps that
  /// were committed before stay committed. False: cause() says what came first. Texts are cut at
  /// 16 kB. Where the outcome is decided elsewhere, this proposes: true if it is the first
  /// proposal.
  bool abort(const JobCause &cause);
  /// Aborts, waits for the decision, and returns the first cause.
  Status fail(const JobCause &cause);
  /// After abort(): waits until the job is aborted, by this host or another. If none decides within
  /// `patience`, besides the time since host 0 was heard, this host does.
  void awaitDecision(std::chrono::milliseconds patience = std::chrono::seconds(10));
  /// The first failure, or nothing. Never waits: a process that dies in abort() has either not
  /// aborted the job, or left its whole cause.
  std::optional<JobCause> cause() const;
  /// Ok, or the status of the first failure.
  Status failure() const;
  /// Marks step `step` (1, 2, ...) as done by all ranks. To be called by anyone who knows that all
  /// of them have finished it. True if it is committed, by this call or before; false if the job
  /// was aborted first.
  bool commit(uint32_t step);
  uint32_t committed() const;

  /// The cause that this host proposes, until it is decided.
  std::optional<JobCause> proposal() const;
  /// Aborts the job: that is decided.
  void abortDecided(const JobCause &cause);
  /// This host decides for itself from now on: the store cannot be reached. A proposal is decided.
  void decideHere();

  // -- All-gathers, numbered from 1. Each rank comes to all of them, in order. --

  /// `rank` comes to all-gather `number` with its part, and has done `step` (0: none). Where all
  /// ranks are on this host, the last one that comes finishes it. BadInput for more than kMaxPart
  /// bytes; Unsupported if there is no memory.
  Status bring(int64_t rank, uint32_t number, const std::string &part, uint32_t step);
  /// All of `ranks` have come to it.
  bool haveCome(Ranks ranks, uint32_t number) const;
  /// All ranks of the job have brought their parts: commits the step that they have all done, if
  /// any, and says so to all. Any number of callers.
  void finishGather(uint32_t number);
  /// The number of the last one that is finished.
  uint32_t gathered() const;
  /// The parts of `ranks`, which have come to it, and the least step that they have done.
  Result<std::vector<std::string>> parts(Ranks ranks, uint32_t number) const;
  uint32_t leastStep(Ranks ranks, uint32_t number) const;
  /// Sleeps until `number` may be finished, wake() is called, or the slice is over.
  void waitForGather(uint32_t number, std::chrono::milliseconds slice) const;
  /// Sleeps until a rank of this host may have come to `number`; as above.
  void waitForRanks(uint32_t number, std::chrono::milliseconds slice) const;
  void wake();

  // -- The choice. --

  /// Says once, as rank 0, what was chosen. A text of more than 4 kB is left out.
  void publishChoice(const std::string &text);
  /// Empty: nothing has been said.
  std::string choice() const;

  /// For timing only: returns when all ranks of this host have called it equally often, within a
  /// microsecond or so where each has a core of its own. Spins; after a while that counts as a wait
  /// for all ranks, which the watchdog ends when nothing moves. False if the job has been aborted.
  bool spinUntilAllCome(int64_t rank);

private:
  struct Layout; // job_memory.cpp
  JobMemory(FileDescriptor descriptor, void *address, size_t bytes);
  bool change(llvm::function_ref<std::optional<uint64_t>(uint64_t outcome)> next);
  uint32_t writeCause(const JobCause &cause);
  int64_t placeOfPart(int64_t rank, uint32_t number) const;
  JobCause readCause(uint32_t number) const;
  FileDescriptor descriptor_;
  Layout *layout_ = nullptr; ///< null if moved from
  size_t bytes_ = 0;
};

/// CLOCK_MONOTONIC in nanoseconds: the same on all ranks of a host.
uint64_t monotonicNs();
constexpr uint64_t inNs(std::chrono::milliseconds time) {
  return static_cast<uint64_t>(std::chrono::nanoseconds(time).count());
}

} // namespace braid
