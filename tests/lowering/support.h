//===- tests/lowering/support.h - lowers texts and inspects every pass ------------------------===//
#pragma once

#include "lowering/lower.h"

namespace braid {

/// The program after a pass.
struct Snapshot {
  std::string pass;
  bool changed;
  std::string text;
};

/// The result of lowering a text.
struct Lowered {
  Status status;
  std::string messages;             ///< errors as `line:column: text`, one per line
  std::string text;                 ///< the program, or empty if there is none
  std::vector<Snapshot> snapshots;  ///< one per pass that ran
  std::vector<std::string> changes; ///< names of passes that changed the program

  /// Returns the nodes of the program after `pass`: its text without header and final `}`.
  std::string after(llvm::StringRef pass) const;
  /// Returns the nodes of the result.
  std::string body() const;
};

/// Parses, verifies and lowers the only fusion of `text`, which must be valid.
Lowered lowerText(llvm::StringRef text, const Configurations &options);
/// As above, with a schedule in the syntax of `--schedule`.
Lowered lowerText(llvm::StringRef text, const std::string &schedule = "");

/// Lowers the only fusion of `text`. Returns "" if additions are in rank order, otherwise a
/// description of the violation.
std::string orderOfAdditions(llvm::StringRef text, const std::string &schedule);

/// Returns the program's body without comments, with runs of blanks replaced by one blank.
std::string withoutLayout(llvm::StringRef text);

} // namespace braid
