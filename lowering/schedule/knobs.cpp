//===- lowering/schedule/knobs.cpp - the knobs of a schedule ----------------------------------===//

#include "lowering/schedule/knobs.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <limits>

namespace braid {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

/// Returns "one-shot" for "OneShot".
std::string wordOf(llvm::StringRef value) {
  std::string word;
  for (char letter : value) {
    const char lower = llvm::toLower(letter);
    word += lower != letter && !word.empty() ? "-" : "";
    word += lower;
  }
  return word;
}

/// Returns {"shift", "xor"} for "Shift, Xor".
std::vector<std::string> wordsOf(llvm::StringRef values) {
  llvm::SmallVector<llvm::StringRef, 4> parts;
  values.split(parts, ", ");
  std::vector<std::string> words;
  for (llvm::StringRef part : parts)
    words.push_back(wordOf(part));
  return words;
}

/// Returns the reason why a plausible value is not supported, or a suggestion.
std::string whyNot(Knob knob, llvm::StringRef word, const std::vector<std::string> &words) {
  if (knob == Knob::Memory && word == "multicast")
    return ": Braid does not use NVLink multicast, because a process that exits while holding "
           "multicast memory can make GPUs unusable";
  return didYouMean(word, words);
}

std::vector<KnobRow> makeRows() {
  return {
#define BRAID_WORDS(Id, accessor, name, applies, help, ...)                                        \
  {Knob::Id, name, wordsOf(#__VA_ARGS__), 0, kNoLimit, 0, applies, help},
#define BRAID_IR_WORDS(Id, accessor, name, applies, help, ...)                                     \
  {Knob::Id, name, wordsOf(#__VA_ARGS__), 0, kNoLimit, 0, applies, help},
#define BRAID_DEVICE_WORDS(Id, name, help, ...)                                                    \
  {Knob::Id, name, wordsOf(#__VA_ARGS__), 0, kNoLimit, std::nullopt, kTransferMode, help},
#define BRAID_INTEGER(Id, accessor, name, least, most, fallback, applies, help)                    \
  {Knob::Id, name, {}, least, most, fallback, applies, help},
#include "lowering/schedule/knobs.def"
  };
}

#define BRAID_IR_WORDS(Id, accessor, name, applies, help, First, Second)                           \
  static_assert(static_cast<int>(Id::First) == 0 && static_cast<int>(Id::Second) == 1);
#include "lowering/schedule/knobs.def"

} // namespace

std::string KnobRow::accepted() const {
  if (!words.empty())
    return "one of " + llvm::join(words, ", ");
  if (most == kNoLimit)
    return "a 64-bit integer of at least " + std::to_string(least);
  return "an integer from " + std::to_string(least) + " to " + std::to_string(most);
}

bool KnobRow::accepts(int64_t value) const {
  return value >= least && value <= most &&
         (words.empty() || value < static_cast<int64_t>(words.size()));
}

std::string KnobRow::str(std::optional<int64_t> value) const {
  if (!value)
    return "default";
  return words.empty() || !accepts(*value) ? std::to_string(*value)
                                           : words[static_cast<size_t>(*value)];
}

Result<int64_t> KnobRow::parse(llvm::StringRef text, const std::string &what) const {
  int64_t value = llvm::find(words, text) - words.begin();
  const bool isRead = !words.empty() || !text.getAsInteger(10, value);
  if (isRead && accepts(value))
    return value;
  return Status(StatusCode::BadInput, "expected " + what + " to be " + accepted() + ", got '" +
                                          text.str() + "'" + whyNot(knob, text, words));
}

llvm::ArrayRef<KnobRow> allKnobs() {
  static const std::vector<KnobRow> rows = makeRows();
  return rows;
}

const KnobRow *findKnob(llvm::StringRef name) {
  const auto *found = llvm::find_if(allKnobs(), [&](const KnobRow &r) { return r.name == name; });
  return found == allKnobs().end() ? nullptr : found;
}

} // namespace braid
