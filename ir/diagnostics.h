//===- ir/diagnostics.h - located messages about an input text --------------------------------===//
//
// All errors in a text are collected, then printed together. A message starts in lower case, has no
// full stop, and states what was expected and what was found:
//
//   return diags.error(loc) << "expected an extent, got '" << token << "'";   // converts to false
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace llvm {
class raw_ostream;
}

namespace braid {

/// A position in the text, counted from 1. Line 0 marks a node that a builder created.
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
  std::vector<Diagnostic> notes; ///< each of severity Note; printed after the message, in order
};

/// Collects the diagnostics of one source text. Not thread-safe.
class Diagnostics {
public:
  /// A message being built. Converts to `false`: `return diags.error(l) << "..."` signals failure.
  class InFlight {
  public:
    InFlight(Diagnostics &owner, size_t index) : owner_(&owner), index_(index) {}
    InFlight &operator<<(llvm::StringRef text);
    InFlight &operator<<(int64_t number);
    InFlight &operator<<(int number) { return *this << static_cast<int64_t>(number); }
    InFlight &operator<<(size_t number) { return *this << static_cast<int64_t>(number); }
    InFlight &operator<<(unsigned number) { return *this << static_cast<int64_t>(number); }
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
  /// Messages show `fileName`; `text` is copied, so that messages can show lines with a caret.
  Diagnostics(std::string fileName, std::string text)
      : fileName_(std::move(fileName)), text_(std::move(text)) {}

  InFlight error(Location location);
  InFlight warning(Location location);

  /// After this many errors, one last error announces that all further errors are dropped.
  static constexpr size_t kMaxErrors = 100;

  bool hasErrors() const { return errorCount_ != 0; }
  /// True once errors are being dropped; the parser may then stop.
  bool isFull() const { return errorCount_ > kMaxErrors; }
  size_t errorCount() const { return errorCount_; }
  llvm::ArrayRef<Diagnostic> all() const { return diagnostics_; }
  const std::string &fileName() const { return fileName_; }
  const std::string &text() const { return text_; }

  /// Returns `file:line:col`, or just the file name if `location` is unknown; safe for a terminal.
  std::string place(Location location) const;
  /// Prints every message, in order: `file:line:col: error: ...`, the source line, a caret.
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

/// Returns the candidate closest to `word`, or "" if none is close enough for a typo.
std::string nearestName(llvm::StringRef word, llvm::ArrayRef<std::string> candidates);
/// Returns " (did you mean 'x'?)" for the closest candidate, or "" if none is close enough.
std::string didYouMean(llvm::StringRef word, llvm::ArrayRef<std::string> candidates);

} // namespace braid
