//===- runtime/check/checker.h - proves Plans safe or finds a violation -----------------------===//
//
// The checker follows the Plans of all ranks of a mesh through successive runs. It examines only
// the issued commands: it does not depend on lowering and shares no code with it. It proves these
// properties, in this order, and reports the first violation:
//
//   transfers   each endpoint matches exactly one endpoint of its peer, with the same size, type
//               and order; each flag is written by one signal per run; all ranks make the same
//               number of handle exchanges
//   deadlock    if stream k runs on hardware queue k mod Q and queues run in order, every command
//               of every run is reached
//   races       any two accesses to overlapping bytes, at least one of them a write, are ordered by
//               streams, events, signals and awaits; no buffer is used after its release
//   result      symbolic execution shows that every output is computed exactly once from the
//               correct blocks of the current run, that every partial result is added exactly once,
//               and that no bytes are read before they are written
//
// Groups and collectives are replaced by commands that give the same guarantees
// (runtime/plan/spell_out.h), and checked together with the endpoints of ranks that access each
// other's memory. A program that is safe with direct access to peer memory may deadlock if it sends
// messages. Ranks on different hosts share no endpoints.
//
// The history includes the caller, which writes all inputs on the main stream before each run and
// reads all outputs on that stream afterwards, always at the same addresses.
//
// The checker does not prove that GEMMs are numerically correct (see runtime/reference) or that a
// backend executes commands as specified (see the conformance suite).
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"
#include "ir/fusion.h"
#include "runtime/plan/plan.h"
#include "runtime/progress.h"

namespace braid {

struct CheckOptions {
  /// Number of hardware queues per rank. If 0, check() finds the smallest safe number.
  uint32_t queues = 0;
  /// Number of successive runs. Three runs cover the transitions between runs, including those of
  /// double buffers; a single run covers none.
  uint32_t runs = 3;
  /// Requires the partial results of a sum to be added in rank order, in a single sum. Otherwise
  /// each partial result must be added exactly once, in any order and via any intermediate sums.
  bool ordered = false;
  /// Follows every rank, even if ranks are alike (history.h). Does not affect the report.
  bool eachRank = false;
  /// The backend's number of hardware queues per rank; used if `queues` is 0. A rank with more
  /// streams must be safe with one queue, which implies safety for any number of queues and any
  /// assignment of streams. 0 means one queue per stream.
  uint32_t ownQueues = 0;
  /// Called to report the progress of each step.
  ProgressFn progress = {};
};

enum class CheckRule : uint8_t { Transfers, Deadlock, Race, Lifetime, Result };
llvm::StringRef name(CheckRule rule);

/// An event of the history, as shown in diagnostics.
struct CheckedEvent {
  int64_t rank = 0;
  uint32_t run = 1;         ///< 1, 2, ...
  uint32_t command = kNone; ///< index into the rank's Plan; kNone for the caller
  std::string text;         ///< "rank 1, stream(2), run 2: copy in "..." (trip 3) at a.braid:9:5"
  /// For an event in a deadlock cycle: the command that it waits for, and the next event of the
  /// cycle, which precedes the awaited command in its queue. Otherwise empty.
  std::string waitsFor = {}, behind = {};
  uint32_t line = 0; ///< line in the program's text; 0 for the caller
  /// For an event that wrote a wrong result or one of its operands: its accesses, for example
  /// "writes %C of rank 1, bytes [0 .. 64) from %all of rank 1, bytes [0 .. 64)". Otherwise empty.
  std::string detail = {};
};

/// Explains why a program is unsafe: the violated rule, the events involved, and the missing order.
struct Violation {
  CheckRule rule;
  std::string summary; ///< one line
  /// Either a pair of events, a deadlock cycle, or the command that wrote a wrong result, the
  /// commands that wrote its operands, and finally the caller's read.
  std::vector<CheckedEvent> events;
  std::vector<std::string> notes; ///< one line each
  /// For an unordered pair of events 1 and 2: the index of the event that must not run first,
  /// according to the rank's issue order; the consequence if it does, for example "2 reads the data
  /// from before 1 writes: stale data"; and the consequence of the opposite order.
  size_t staleIfFirst = 0;
  std::string stale = {}, otherwise = {};

  /// Returns true if the events are an unordered pair. Other violations may also involve two
  /// events.
  bool isUnordered() const {
    return events.size() == 2 && (rule == CheckRule::Race || !stale.empty());
  }
};

struct CheckReport {
  int64_t ranks = 0;
  int64_t hosts = 1;
  uint32_t runs = 0;
  uint32_t queues = 0;          ///< number of queues for which the proof holds
  size_t commands = 0;          ///< total over all ranks and runs
  size_t transfers = 0;         ///< in one run, over all ranks
  size_t messages = 0;          ///< transfers sent as messages; checked as equivalent commands
  bool isOfMessages = false;    ///< true if ranks may send messages
  size_t collectives = 0;       ///< in one run, on rank 0
  size_t accesses = 0;          ///< memory accesses of all ranks and runs
  bool seamsChecked = false;    ///< true if transitions between runs were checked (`runs` > 1)
  bool orderChecked = false;    ///< true if the order of additions was checked (`ordered`)
  bool resultChecked = false;   ///< false if the correct result is unknown
  std::string resultNotChecked; ///< the reason if `resultChecked` is false
  std::optional<Violation> violation;

  bool isSafe() const { return !violation; }
};

/// Returns the memory footprint of a Plan in bytes.
double memoryOf(const Plan &plan);
/// Returns the number of events in the history for this Plan's rank.
size_t commandsToCheck(const Plan &plan, uint32_t runs);

/// Checks the Plans of ranks 0 .. ranks-1 of a program. `fusion` defines the correct result and may
/// be null. Returns Unsupported up front if the check needs more memory than is available or
/// exceeds the maximum number of commands; the message states the required amount.
Result<CheckReport> check(llvm::ArrayRef<Plan> plans, const Fusion *fusion,
                          const CheckOptions &options);

/// Formats the proved properties or the counterexample in a few lines.
std::string str(const CheckReport &report);

} // namespace braid
