//===- api/view/page.h - the contents of a page about a program -------------------------------===//
//
// One model serves all sources: predictions, traces, counterexamples and flight records. A page
// shows the text of the program beside lanes of commands, each with the line that it implements and
// the command that it waits for.
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

/// Returns the kind of the commands with that name in plan.h, such as "wait_event".
Kind kindNamed(llvm::StringRef name);

/// A reference to a rank's command: indices into Page::ranks and Rank::commands.
struct CommandRef {
  int32_t rank = -1;
  uint32_t command = 0;
  bool isValid() const { return rank >= 0; }
  bool operator==(const CommandRef &) const = default;
};

struct Command {
  Kind kind = Kind::Gemm;
  uint32_t stream = 0;
  uint32_t line = 0; ///< line in Page::text, from 1; 0 if none
  uint32_t run = 1;
  int64_t peer = -1;      ///< the other rank; -1 if none
  int64_t bytes = 0;      ///< written; 0 if unknown
  std::string trips = {}; ///< "2", "0, 3": the values of the enclosing loop indices
  CommandRef cause = {};  ///< the command that a wait waits for
};

struct Rank {
  int64_t number = 0;
  std::vector<std::string> streams; ///< names, by number
  std::vector<Command> commands;    ///< in issue order
};

inline constexpr double kDidNotRun = std::numeric_limits<double>::quiet_NaN();

/// A time is kDidNotRun if the command did not begin or did not end.
struct Span {
  double begin = kDidNotRun, end = kDidNotRun;
};

/// A part of the critical path, which starts at `begin` and takes `took`.
struct PathStep {
  CommandRef command;
  std::string what; ///< "GEMM", "copy", "signal", "launch", ...
  double begin = 0, took = 0;
};

/// The times of the commands, from one source.
struct Timing {
  std::string name;                          ///< "predicted", "measured"
  std::string gap = "launch";                ///< the name of the time before a command begins
  std::vector<std::vector<Span>> spans = {}; ///< [rank][command]
  std::vector<PathStep> critical = {};       ///< from the first to the last; may be empty
  double total = 0;                          ///< from 0 to the end of the last command
};

/// A numbered sentence about a command or, if that is invalid, about a line.
struct Mark {
  CommandRef command = {};
  std::string text = {};
  uint32_t line = 0; ///< line in Page::text, from 1; 0 if none
};

struct Page {
  std::string title;                 ///< "@ag_matmul_pairwise"
  std::string subtitle;              ///< describes the page's subject
  std::vector<std::string> findings; ///< sentences, the most important first
  bool isFailure = false;            ///< the findings describe a failure
  std::string unit = "µs";           ///< the unit of spans; "step" for orders without times
  std::vector<std::string> text;     ///< lines of the program
  std::string program;               ///< the program as printed
  std::vector<Rank> ranks;
  std::vector<Timing> timings; ///< one or more
  std::vector<Mark> marks;
  bool areMarksLinked =
      false; ///< each mark's command leads to the next one's, the last to the first
};

/// Returns `text` escaped for an element or an attribute of HTML.
std::string htmlText(const std::string &text);

/// Returns one self-contained HTML file in the style of all pages. `title` is text, `body` is HTML.
std::string htmlPage(const std::string &title, const std::string &body);

/// Returns the page as such a file.
std::string toHtml(const Page &page);

/// Returns "52.9 µs", "161.1 ms" or "3 steps".
std::string timeText(double time, const std::string &unit);

} // namespace braid::view
