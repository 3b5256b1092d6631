//===- api/view/page.h - what a page about a program shows ------------------------------------===//
//
// One model for every source: a prediction, a trace, a counterexample, flight records. The text of
// the program on one side, commands in lanes on the other, each command with the line that it comes
// from and with what it waits for.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"
#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace braid::view {

/// What a command does, as the page's legend has it.
enum class Kind : uint8_t {
  Gemm,
  Copy,
  Compute, ///< additions, sums and pointwise functions
  Signal,
  Await,
  Record,
  WaitEvent,
  Message, ///< a group or a collective
};

/// A command of a rank; `rank` and `command` count in Page::ranks and its commands.
struct CommandRef {
  int32_t rank = -1;
  uint32_t command = 0;
  bool isValid() const { return rank >= 0; }
  bool operator==(const CommandRef &) const = default;
};

struct Command {
  Kind kind = Kind::Gemm;
  uint32_t stream = 0;
  uint32_t line = 0; ///< of Page::text, from 1; 0: none
  uint32_t run = 1;
  int64_t peer = -1;      ///< the other rank; -1: none
  int64_t bytes = 0;      ///< written; 0: not said
  std::string trips = {}; ///< "2", "0, 3": the values of the loop indices around it
  CommandRef cause = {};  ///< of a wait: what it waits for
};

struct Rank {
  std::vector<int64_t> numbers;     ///< the rank's; several: these do the same
  std::vector<std::string> streams; ///< names, by number
  std::vector<Command> commands;    ///< in issue order
};

inline constexpr double kDidNotRun = std::numeric_limits<double>::quiet_NaN();

/// kDidNotRun for a command that has not begun, or not ended.
struct Span {
  double begin = kDidNotRun, end = kDidNotRun;
};

/// A part of the critical path: from `begin` on, for `took`.
struct PathStep {
  CommandRef command;
  std::string what; ///< "GEMM", "copy", "signal", "launch", ...
  double begin = 0, took = 0;
};

/// When the commands ran, by one source.
struct Timing {
  std::string name;           ///< "predicted", "measured"
  std::string gap = "launch"; ///< what time is called in which a command has not begun
  std::vector<std::vector<Span>> spans = {}; ///< [rank][command]
  std::vector<PathStep> critical = {};       ///< from the first to the last; may be empty
  double total = 0;                          ///< from 0 to the last end
};

/// A command that the page points at, with a sentence; else its line, if that is known.
struct Mark {
  CommandRef command = {};
  std::string text = {};
  uint32_t line = 0; ///< of Page::text, from 1, whether there is a command or not; 0: none
  /// Where marks have a relation: the mark alone, "rank 0, main, run 1: await of ...", and what the
  /// arrow says that leads away from it: in a circle, what it waits for. Empty: there is no arrow.
  std::string name = {}, arrow = {};
};

struct Page {
  std::string title;                 ///< "@ag_matmul_pairwise"
  std::string subtitle;              ///< what is shown, of what, with what
  std::vector<std::string> findings; ///< sentences, the most important first
  bool isFailure = false;            ///< findings are about what went wrong
  std::string unit = "µs";           ///< of the spans; "step" where there is no time
  std::vector<std::string> text;     ///< lines of the program
  std::string program;               ///< the same program prints this, whatever stands around it
  std::vector<Rank> ranks;
  std::vector<Timing> timings; ///< one or more
  std::vector<Mark> marks;
  /// Of marks: each waits for the next, the last for the first; or nothing orders the two.
  enum class Relation : uint8_t { None, Circle, Pair } relation = Relation::None;
};

/// One HTML file without outside resources.
std::string toHtml(const Page &page);

/// The marks of a page in boxes, with arrows for their relation, as SVG; empty if they have none.
std::string relationSvg(const Page &page);

/// "52.9 µs", "161.1 ms", "3 steps".
std::string timeText(double time, const std::string &unit);

/// Ranks whose commands are alike, with times that differ by less than a hundredth of the whole,
/// become one where there are more than `most` ranks. References follow.
void joinAlikeRanks(Page &page, size_t most = 64);

} // namespace braid::view
