//===- runtime/check/checker.h - proves the Plans of all ranks safe, or shows why not ---------===//
//
// The checker takes the Plans of all ranks of a mesh and follows them through successive runs. It
// judges what will be issued, command by command; it knows nothing of lowering and shares no code
// with it. Five things are shown, in this order, and the first that fails is reported:
//
//   transfers   every endpoint meets exactly one on its peer, with the same bytes, type and order;
//               every flag is written by one signal a run; all ranks prepare alike
//   deadlock    with stream k on hardware queue k mod Q, each queue issuing in order, every command
//               of every run is reached
//   races       any two accesses to overlapping bytes, one of them a write, are ordered by streams,
//               events, signals and awaits; nothing is used after it is freed
//   result      following blocks symbolically, every output is computed exactly once, from exactly
//               the right blocks of the right run, with every partial result added exactly once,
//               and nothing is read before it is written
//
// Groups and collectives are replaced by the commands that they guarantee
// (runtime/plan/spell_out.h), and checked together with the endpoints of ranks that reach each
// other's memory. A program that is safe over peers' memory may hang over messages. Ranks of
// different hosts have no endpoints.
//
// The caller is part of the history: it writes all inputs on the main stream before each run, and
// reads all outputs there after it, at the same addresses every time.
//
// Not shown: that GEMMs are numerically right (the reference judges that), and that a
// backend does what a command says (the conformance suite does).
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"
#include "ir/fusion.h"
#include "runtime/plan/plan.h"
#include "runtime/progress.h"

namespace braid {

struct CheckOptions {
  /// Hardware queues a rank; 0: the smallest number that is safe is looked for.
  uint32_t queues = 0;
  /// Successive runs. Three cover the seams between runs and any alternation of two buffers; one
  /// shows no seam.
  uint32_t runs = 3;
  /// A result's partial results must be added in the order of ranks, in one sum. Else only each of
  /// them exactly once, in any order, by way of other sums or not.
  bool ordered = false;
  /// Ranks are followed one by one, though they may be alike (history.h). The report is the same.
  bool eachRank = false;
  /// Used if `queues` is 0: a rank with more streams than this has to be safe with one queue, which
  /// proves it for any number of queues and any way to share them. 0: a queue for each stream.
  uint32_t ownQueues = 0;
  /// Hears of every step, with the memory that it takes in all.
  ProgressFn progress = {};
};

enum class CheckRule : uint8_t { Transfers, Deadlock, Race, Lifetime, Result };
llvm::StringRef name(CheckRule rule);

/// One command of the history, as a message names it.
struct CheckedEvent {
  int64_t rank = 0;
  uint32_t run = 1;         ///< 1, 2, ...
  uint32_t command = kNone; ///< index into the rank's Plan; kNone: the caller
  std::string text;         ///< "rank 1, stream(2), run 2: copy in "..." (trip 3) at a.braid:9:5"
  /// For an event in the cycle of a deadlock: the command that it waits for, and the command after
  /// which that one is queued, which is the next of the cycle. Else empty.
  std::string waitsFor = {}, behind = {};
  uint32_t line = 0; ///< line of the program's text; 0: the caller
  /// For an event that wrote a wrong result or its operand: "writes %C of rank 1, bytes [0 .. 64)
  /// from %all of rank 1, bytes [0 .. 64)". Else empty.
  std::string detail = {};
};

/// Why a program is not safe: what is wrong, the operations at fault, and which order is missing.
struct Violation {
  CheckRule rule;
  std::string summary; ///< one line
  /// The accused: a pair; the cycle of a deadlock; or the command that wrote a wrong result, those
  /// that wrote what it was computed from, and last the caller who reads it.
  std::vector<CheckedEvent> events;
  std::vector<std::string> notes; ///< one line each
  /// For an unordered pair, events 1 and 2: the one that must not come first, by the rank's issue
  /// order; the consequence if it does, "2 reads what was there before 1 writes: stale data"; and
  /// the consequence of the other order.
  size_t staleIfFirst = 0;
  std::string stale = {}, otherwise = {};

  /// The events are a pair that nothing orders. Two can be at fault for other reasons.
  bool isUnordered() const {
    return events.size() == 2 && (rule == CheckRule::Race || !stale.empty());
  }
};

struct CheckReport {
  int64_t ranks = 0;
  int64_t hosts = 1;
  uint32_t runs = 0;
  uint32_t queues = 0;          ///< that the proof holds for
  size_t commands = 0;          ///< over all ranks and runs
  size_t transfers = 0;         ///< in one run, over all ranks
  size_t messages = 0;          ///< transfers that are messages; they were followed spelled out
  bool isOfMessages = false;    ///< ranks may send messages
  size_t collectives = 0;       ///< in one run, on rank 0
  size_t accesses = 0;          ///< to memory, of all ranks and runs
  bool seamsChecked = false;    ///< successive runs were checked together; false for a single run
  bool orderChecked = false;    ///< that of additions, with the result; see CheckOptions::ordered
  bool resultChecked = false;   ///< false: nothing says what the result should be
  std::string resultNotChecked; ///< why, if so
  std::optional<Violation> violation;

  bool isSafe() const { return !violation; }
};

/// Bytes that a Plan takes.
double memoryOf(const Plan &plan);
/// Commands of the history that are of this Plan's rank, and what stands beside them.
size_t commandsToCheck(const Plan &plan, uint32_t runs);
/// Bytes that check() takes for this Plan's rank, the Plan not counted, where each is followed.
double memoryToCheck(const Plan &plan, uint32_t runs);
/// The same where ranks are alike, and the rank is not one of those that stand for all:
/// only what its memory holds is followed.
double memoryToCheckAlike(const Plan &plan, uint32_t runs);
/// Ok if `bytes` are available for a check of that many ranks and runs, else Unsupported.
Status expectMemoryToCheck(double bytes, int64_t ranks, uint32_t runs);

/// Checks Plans 0 .. ranks-1 of one program. `fusion` says what the result should be, or is null.
/// Unsupported, before anything is followed, if that takes more memory than is available, or more
/// commands than the checker follows (the message says how many).
Result<CheckReport> check(llvm::ArrayRef<Plan> plans, const Fusion *fusion,
                          const CheckOptions &options);

/// Prints the proved properties, or the counterexample, in a few lines.
std::string str(const CheckReport &report);

} // namespace braid
