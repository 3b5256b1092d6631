//===- ir/diagnostics.h - diagnostics with source locations -----------------------------------===//
//
// All errors in a text are collected, then printed together. A message starts with a lower-case
// letter, does not end with a period, and states what was expected and what was found:
//
//   return diags.error(loc) << "expected an extent, got '" << token << "'";   // converts to false
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <concepts>
#include <cstdint>
#include <string>
#include <vector>

namespace llvm {
class raw_ostream;
}

namespace braid {

/// A 1-based position in the text. Line 0 means that the node was built without source text.
struct Location {
  uint32_t line = 0;
  uint32_t column = 0;

  bool isKnown() const { return line != 0; }
  bool operator==(const Location &) const = default;
};

enum class Severity { Error, Warning, Note };

struct Diagnostic {
  Severity severity;
  Location location;
  std::string message;
  std::vector<Diagnostic> notes; ///< printed after the message, in order; all of severity Note
};

/// Collects the diagnostics of one source text. Not thread-safe.
class Diagnostics {
public:
  /// A message being built. Converts to `false`, so `return diags.error(l) << "..."` returns false.
  class InFlight {
  public:
    InFlight(Diagnostics &owner, size_t index) : owner_(&owner), index_(index) {}
    InFlight &operator<<(llvm::StringRef text);
    InFlight &operator<<(std::integral auto number) {
      return *this << llvm::StringRef(std::to_string(number));
    }
    /// Attaches a note to this message.
    InFlight &note(Location location, llvm::StringRef text);
    operator bool() const { return false; }

  private:
    bool isDropped() const;
    Diagnostic &target();
    Diagnostics *owner_;
    size_t index_;
  };

  Diagnostics() = default;
  /// Printed messages start with `fileName`. Keeps `text`, so that messages can quote source lines.
  Diagnostics(std::string fileName, std::string text)
      : fileName_(std::move(fileName)), text_(std::move(text)) {}

  InFlight error(Location location);
  InFlight warning(Location location);

  /// After this many errors, a final error announces that further errors are dropped.
  static constexpr size_t kMaxErrors = 100;

  bool hasErrors() const { return errorCount_ != 0; }
  /// True once errors are being dropped; the parser may then stop.
  bool isFull() const { return errorCount_ > kMaxErrors; }
  size_t errorCount() const { return errorCount_; }
  llvm::ArrayRef<Diagnostic> all() const { return diagnostics_; }
  const std::string &fileName() const { return fileName_; }
  const std::string &text() const { return text_; }

  /// Returns `file:line:col`, or the file name if `location` is unknown, escaped for a terminal.
  std::string place(Location location) const;
  /// Prints each message as `file:line:col: error: ...`, followed by the source line and a caret.
  void print(llvm::raw_ostream &os) const;
  std::string str() const;

private:
  InFlight report(Severity severity, Location location);
  void printOne(llvm::raw_ostream &os, const Diagnostic &diagnostic) const;
  llvm::StringRef lineText(uint32_t line) const;

  std::string fileName_ = "<input>";
  std::string text_;
  std::vector<Diagnostic> diagnostics_;
  size_t errorCount_ = 0;
};

/// Returns the candidate closest to `word`, or "" if `word` is not a likely typo of any candidate.
std::string nearestName(llvm::StringRef word, llvm::ArrayRef<std::string> candidates);
/// Returns " (did you mean '%x'?)" if `sigil` is "%" and nearestName() returns "x". Returns "" if
/// nearestName() finds no candidate.
std::string didYouMean(llvm::StringRef word, llvm::ArrayRef<std::string> candidates,
                       const char *sigil = "");

} // namespace braid
