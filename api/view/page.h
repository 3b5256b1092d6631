//===- api/view/page.h - what a page about a program shows ------------------------------------===//
//
// One model for every source: a prediction, a trace, a counterexample, flight records. The text of
// the program is on one side and the commands are in lanes on the other, each with the line that it
// implements and the command that it waits for.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace braid::view {

/// The kinds of commands in the page's legend.
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

/// The kind of the commands with that name of plan.h's, "wait_event".
Kind kindNamed(llvm::StringRef name);

/// A command of a rank: indices into Page::ranks and Rank::commands.
struct CommandRef {
  int32_t rank = -1;
  uint32_t command = 0;
  bool isValid() const { return rank >= 0; }
  bool operator==(const CommandRef &) const = default;
};

struct Command {
  Kind kind = Kind::Gemm;
  uint32_t stream = 0;
  uint32_t line = 0; ///< in Page::text, from 1; 0: none
  uint32_t run = 1;
  int64_t peer = -1;      ///< the other rank; -1: none
  int64_t bytes = 0;      ///< written; 0: unknown
  std::string trips = {}; ///< "2", "0, 3": the values of the loop indices around it
  CommandRef cause = {};  ///< the command that a wait waits for
};

struct Rank {
  int64_t number = 0;
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
  std::string name;                          ///< "predicted", "measured"
  std::string gap = "launch";                ///< name of the time in which a command has not begun
  std::vector<std::vector<Span>> spans = {}; ///< [rank][command]
  std::vector<PathStep> critical = {};       ///< from the first to the last; may be empty
  double total = 0;                          ///< from 0 to the last end
};

/// A numbered sentence about a command or, if that is invalid, about a line.
struct Mark {
  CommandRef command = {};
  std::string text = {};
  uint32_t line = 0; ///< in Page::text, from 1; 0: none
};

struct Page {
  std::string title;                 ///< "@ag_matmul_pairwise"
  std::string subtitle;              ///< describes the page's subject
  std::vector<std::string> findings; ///< sentences, the most important first
  bool isFailure = false;            ///< findings are about what went wrong
  std::string unit = "µs";           ///< the unit of spans; "step" if there is no time
  std::vector<std::string> text;     ///< lines of the program
  std::string program;               ///< the program as it prints itself
  std::vector<Rank> ranks;
  std::vector<Timing> timings; ///< one or more
  std::vector<Mark> marks;
  bool areMarksLinked =
      false; ///< each mark's command leads to the next one's, the last to the first
};

/// One HTML file without outside resources, in the style of all pages. `title` is text, `body` is
/// HTML.
std::string htmlPage(const std::string &title, const std::string &body);

/// The page as such a file.
std::string toHtml(const Page &page);

/// "52.9 µs", "161.1 ms", "3 steps".
std::string timeText(double time, const std::string &unit);

} // namespace braid::view
