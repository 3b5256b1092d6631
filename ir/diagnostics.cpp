//===- ir/diagnostics.cpp - collects and prints diagnostics -----------------------------------===//

#include "ir/diagnostics.h"

#include "api/status.h"
#include "ir/printable.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

namespace braid {

//===----------------------------------------------------------------------------------------===//
// Collecting
//===----------------------------------------------------------------------------------------===//

/// Value of `index_` for a dropped message.
static constexpr size_t kDropped = ~size_t(0);

bool Diagnostics::InFlight::isDropped() const { return index_ == kDropped; }

Diagnostic &Diagnostics::InFlight::target() { return owner_->diagnostics_[index_]; }

/// Longer names and numbers are truncated in messages, and "did you mean" ignores them.
static constexpr size_t kLongestWord = 100;

static bool isOfWord(char c) { return llvm::isAlnum(c) || c == '_'; }

/// Truncates long names and numbers, because the input may contain a name of several megabytes.
static std::string shortened(llvm::StringRef text) {
  constexpr size_t kShown = 60;
  std::string result;
  while (!text.empty()) {
    llvm::StringRef word = text.take_while(isOfWord);
    text = text.drop_front(word.size());
    if (word.size() <= kLongestWord)
      result += word;
    else
      result +=
          word.take_front(kShown).str() + "... (" + std::to_string(word.size()) + " characters)";
    llvm::StringRef between = text.take_until(isOfWord);
    text = text.drop_front(between.size());
    result += between;
  }
  return result;
}

Diagnostics::InFlight &Diagnostics::InFlight::operator<<(llvm::StringRef text) {
  if (!isDropped())
    target().message += shortened(text);
  return *this;
}

Diagnostics::InFlight &Diagnostics::InFlight::note(Location location, llvm::StringRef text) {
  if (!isDropped())
    target().notes.push_back({Severity::Note, location, shortened(text), {}});
  return *this;
}

Diagnostics::InFlight Diagnostics::report(Severity severity, Location location) {
  if (isFull())
    return InFlight(*this, kDropped);
  if (severity == Severity::Error && ++errorCount_ > kMaxErrors) {
    diagnostics_.push_back(
        {severity, location, "too many errors; further errors are not shown", {}});
    return InFlight(*this, kDropped);
  }
  diagnostics_.push_back({severity, location, "", {}});
  return InFlight(*this, diagnostics_.size() - 1);
}

Diagnostics::InFlight Diagnostics::error(Location location) {
  return report(Severity::Error, location);
}

Diagnostics::InFlight Diagnostics::warning(Location location) {
  return report(Severity::Warning, location);
}

//===----------------------------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------------------------===//

static llvm::StringRef name(Severity severity) {
  static constexpr llvm::StringLiteral kNames[] = {"error", "warning", "note"};
  static_assert(std::size(kNames) == size_t(Severity::Note) + 1);
  return kNames[static_cast<size_t>(severity)];
}

std::string Diagnostics::place(Location location) const {
  constexpr size_t kLongestName = 4096; // PATH_MAX on Linux
  const std::string file = printable(fileName_, kLongestName);
  if (!location.isKnown())
    return file;
  return file + ":" + std::to_string(location.line) + ":" + std::to_string(location.column);
}

llvm::StringRef Diagnostics::lineText(uint32_t line) const {
  llvm::StringRef rest = text_;
  for (uint32_t i = 1; i < line && !rest.empty(); ++i)
    rest = rest.split('\n').second;
  return rest.split('\n').first.rtrim('\r');
}

static bool isContinuationByte(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// Makes an input line safe to print on a terminal. Unlike printable(), replaces each unsafe
/// character with exactly one character, so that the caret lines up.
static std::string inColumns(llvm::StringRef line) {
  bool keepUtf8 = llvm::json::isUTF8(line);
  std::string shown;
  for (char c : line) {
    auto byte = static_cast<unsigned char>(c);
    bool isControl = byte < 0x20 || byte == 0x7F;
    bool isForeign = byte >= 0x80 && !keepUtf8;
    shown += byte == '\t' ? ' ' : isControl || isForeign ? '?' : c;
  }
  return shown;
}

/// Prints `line` with a caret under `column`. If `line` is long, prints only the part around it.
static void printCaret(llvm::raw_ostream &os, llvm::StringRef line, uint32_t column) {
  constexpr size_t kShown = 160, kBefore = 80;
  if (line.empty())
    return;
  size_t offset = std::min<size_t>(column - 1, line.size());
  if (line.size() > kShown) {
    size_t first = offset > kBefore ? offset - kBefore : 0;
    line = line.substr(first, kShown);
    offset -= first;
  }
  std::string shown = inColumns(line);
  auto atOffset = shown.begin() + static_cast<ptrdiff_t>(offset);
  os << shown << '\n';
  os.indent(
      static_cast<unsigned>(offset - std::count_if(shown.begin(), atOffset, isContinuationByte)));
  os << "^\n";
}

void Diagnostics::printOne(llvm::raw_ostream &os, const Diagnostic &diagnostic) const {
  os << place(diagnostic.location) << ": " << name(diagnostic.severity) << ": "
     << printableMessage(diagnostic.message) << '\n';
  if (diagnostic.location.isKnown())
    printCaret(os, lineText(diagnostic.location.line), diagnostic.location.column);
  for (const Diagnostic &note : diagnostic.notes)
    printOne(os, note);
}

void Diagnostics::print(llvm::raw_ostream &os) const {
  for (const Diagnostic &diagnostic : diagnostics_)
    printOne(os, diagnostic);
}

std::string Diagnostics::str() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  print(os);
  return os.str();
}

//===----------------------------------------------------------------------------------------===//
// Suggestions
//===----------------------------------------------------------------------------------------===//

std::string nearestName(llvm::StringRef word, llvm::ArrayRef<std::string> candidates) {
  // Allow one edit per three letters, but not a change of every letter.
  unsigned best = static_cast<unsigned>((word.size() + 2) / 3 + 1);
  std::string nearest;
  if (word.size() > kLongestWord)
    return nearest;
  for (const std::string &candidate : candidates) {
    unsigned distance = word.edit_distance(candidate, /*AllowReplacements=*/true, best);
    if (word.equals_insensitive(candidate))
      distance = 0;
    else if (distance >= word.size() || distance >= candidate.size())
      continue;
    if (distance >= best)
      continue;
    best = distance;
    nearest = candidate;
  }
  return nearest;
}

std::string didYouMean(llvm::StringRef word, llvm::ArrayRef<std::string> candidates,
                       const char *sigil) {
  std::string nearest = nearestName(word, candidates);
  return nearest.empty() ? "" : " (did you mean '" + (sigil + nearest) + "'?)";
}

} // namespace braid
