//===- api/view/page.h - the contents of a page about a program -------------------------------===//
//
// Predictions, traces, counterexamples and flight records all use this model. A page shows the text
// of the program next to lanes of commands. Each command refers to the line that it implements and
// to the command that it waits for.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/plan.h"

#include <limits>

namespace braid::view {

/// A reference to a command, as indices into Page::ranks and Rank::commands.
struct CommandRef {
  int32_t rank = -1;
  uint32_t command = 0;
  bool isValid() const { return rank >= 0; }
  bool operator==(const CommandRef &) const = default;
};

struct Command {
  CommandKind kind = CommandKind::Matmul;
  uint32_t stream = 0;
  uint32_t line = 0; ///< 1-based line in Page::text; 0 if none
  uint32_t run = 1;
  int64_t peer = -1;      ///< the other rank; -1 if none
  int64_t bytes = 0;      ///< bytes written; 0 if unknown
  std::string trips = {}; ///< index values of the enclosing loops, such as "2" or "0, 3"
  CommandRef cause = {};  ///< for a wait, the command that it waits for
};

struct Rank {
  int64_t number = 0;
  std::vector<std::string> streams; ///< names, indexed by stream number
  std::vector<Command> commands;    ///< in issue order
};

inline constexpr double kDidNotRun = std::numeric_limits<double>::quiet_NaN();

/// The times of a command. `begin` or `end` is kDidNotRun if the command did not begin or end.
struct Span {
  double begin = kDidNotRun, end = kDidNotRun;
};

/// A step of the critical path. The step starts at `begin` and lasts for `took`.
struct PathStep {
  CommandRef command;
  std::string what; ///< "GEMM", "copy", "signal", "launch", ...
  double begin = 0, took = 0;
};

/// The times of all commands, from one source such as a prediction or a trace.
struct Timing {
  std::string name;                          ///< "predicted" or "measured", for example
  std::string gap = "launch";                ///< the name for gaps before commands begin
  std::vector<std::vector<Span>> spans = {}; ///< [rank][command]
  std::vector<PathStep> critical = {};       ///< the critical path, first step first; may be empty
  double total = 0;                          ///< time at which the last command ends
};

/// A numbered note about a command or, if `command` is invalid, about a line.
struct Mark {
  CommandRef command = {};
  std::string text = {};
  uint32_t line = 0; ///< 1-based line in Page::text; 0 if none
};

struct Page {
  std::string title;                 ///< for example, "@ag_matmul_pairwise"
  std::string subtitle;              ///< describes what the page shows
  std::vector<std::string> findings; ///< sentences, most important first
  bool isFailure = false;            ///< true if the findings describe a failure
  std::string unit = "µs";           ///< unit of the spans; "step" if commands have only an order
  std::vector<std::string> text;     ///< lines of the program
  std::string program;               ///< the program as printed
  std::vector<Rank> ranks;
  std::vector<Timing> timings; ///< at least one
  std::vector<Mark> marks;
  bool areMarksLinked = false; ///< true to link each mark to the next, and the last to the first
};

/// Finds the critical path by walking backwards from the command that ends last. The predecessor of
/// a command is the previous command on its stream or the command that it waits for, whichever ends
/// later. Gaps become steps named `timing.gap`. Sets `timing.critical` and `timing.total`.
void findCriticalPath(const Page &page, Timing &timing);

/// Returns a sentence such as "the critical path of 193.2 µs is 84 % GEMM, 9 % copy". It lists the
/// kinds of steps that make up at least 0.5 % of the path, longest first. Returns an empty string
/// if there is no critical path.
std::string whatLimits(const Timing &timing, const std::string &unit);

/// The HTML body, style sheet and script of a page: the files of api/view/page, which the build
/// embeds (see cmake/BraidEmbed.cmake). The body is a format string for fmt.
extern const char *const kPageHtml, *const kPageCss, *const kPageJs;

/// Escapes `text` for use in an HTML element or attribute.
std::string htmlText(const std::string &text);

/// Returns a self-contained HTML file in the common style. `title` is plain text; `body` is HTML.
std::string htmlPage(const std::string &title, const std::string &body);

/// Returns the page as a self-contained HTML file.
std::string toHtml(const Page &page);

/// Formats a time, such as "52.9 µs", "161.1 ms" or "3 steps".
std::string timeText(double time, const std::string &unit);

} // namespace braid::view
