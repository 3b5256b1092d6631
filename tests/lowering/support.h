//===- tests/lowering/support.h - lowers texts, and looks at every pass -----------------------===//
#pragma once

#include "lowering/lower.h"

namespace braid {

/// The program behind one pass.
struct Snapshot {
  std::string pass;
  bool changed;
  std::string labelled; ///< as it is

  /// Without labels and without what the header says of lowering.
  std::string text() const;
};

/// What came of lowering a text.
struct Lowered {
  Status status;
  std::string messages;             ///< the errors, `line:column: text`, one a line
  std::string text;                 ///< the program; empty if there is none
  std::vector<Snapshot> snapshots;  ///< one for each pass that ran
  std::vector<std::string> changes; ///< names of the passes that changed something

  /// The nodes of the program behind `pass`: its text without the two header lines and the last
  /// `}`.
  std::string after(llvm::StringRef pass) const;
  /// The same of the result.
  std::string body() const;
};

/// Reads, verifies and lowers the one fusion of `text`, which has to be right. `passes` is a list
/// as `--passes` takes it; without one, all passes run.
Lowered lowerText(llvm::StringRef text, const Configurations &options, llvm::StringRef passes = "");
/// The same; `schedule` is a text as `--schedule` takes it.
Lowered lowerText(llvm::StringRef text, const std::string &schedule = "",
                  llvm::StringRef passes = "");

/// Reads back what was printed behind a pass, with the fusion's text before it, and runs the passes
/// that have not run yet: the program, or what was wrong.
std::string continueLowering(llvm::StringRef fusion, const Snapshot &snapshot);

/// Lowers the one fusion of `text` and asks the checker for additions in the order of ranks: "", or
/// what it finds.
std::string orderOfAdditions(llvm::StringRef text, const std::string &schedule);

/// The program's body as one would write it by hand: without comments, runs of blanks as one blank.
std::string withoutLayout(llvm::StringRef text);

} // namespace braid
