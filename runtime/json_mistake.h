//===- runtime/json_mistake.h - where a text is no JSON ---------------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <nlohmann/json.hpp>

#include <string>

namespace braid {

/// "3:14", line and column of a byte, which is counted from 1 on, as the parser does; 0 is the
/// first.
std::string lineAndColumn(llvm::StringRef text, size_t byte);

/// No file of ours nests more deeply.
inline constexpr int kDeepestJson = 64;

/// What parsedJson() refused: "3:14: expected JSON", "3:14: expected JSON of at most 64 levels", or
/// "3:14: expected a finite number, got 1e999".
std::string jsonMistake(llvm::StringRef text, const nlohmann::json::exception &error);

/// Where values nest more deeply than `most`; npos: nowhere.
size_t nestsTooDeeplyAt(llvm::StringRef text, int most);

/// `text`, or `copy` of it, in which a byte that the parser would take for the end is one that it
/// refuses.
llvm::StringRef withoutEnds(llvm::StringRef text, std::string &copy);

/// As Json::parse(), which throws. Values that nest more deeply than kDeepestJson are taken for no
/// JSON: an object that grows copies what it has, level by level, and the stack would end.
/// The parser's own callback takes time that grows with the square of a list's length.
template <class Json> Json parsedJson(llvm::StringRef text) {
  std::string copy;
  text = withoutEnds(text.take_front(nestsTooDeeplyAt(text, kDeepestJson)), copy);
  return Json::parse(text.begin(), text.end());
}

/// What came in place of what was expected: the start of a value in printable ASCII, "array" or
/// "object", which may be nested too deeply to be printed, or "nothing".
template <class Json> std::string jsonGot(const Json &value) {
  constexpr size_t kMost = 60;
  if (value.is_null() || value.is_structured())
    return value.is_null() ? "nothing" : value.type_name();
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  return text.size() > kMost ? text.substr(0, kMost) + "..." : text;
}

} // namespace braid
