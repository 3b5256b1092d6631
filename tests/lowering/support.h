//===- tests/lowering/support.h - lowers texts, and looks at every pass -----------------------===//
#pragma once

#include "lowering/lower.h"

namespace braid {

/// The program behind one pass.
struct Snapshot {
  std::string pass;
  bool changed;
  std::string text;
};

/// The outcome of lowering a text.
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

/// Reads, verifies and lowers the one fusion of `text`, which has to be right.
Lowered lowerText(llvm::StringRef text, const Configurations &options);
/// The same; `schedule` is a text as `--schedule` takes it.
Lowered lowerText(llvm::StringRef text, const std::string &schedule = "");

/// Lowers the one fusion of `text` and asks the checker for additions in the order of ranks: "", or
/// what it finds.
std::string orderOfAdditions(llvm::StringRef text, const std::string &schedule);

/// The program's body as one would write it by hand: without comments, runs of blanks as one blank.
std::string withoutLayout(llvm::StringRef text);

} // namespace braid
