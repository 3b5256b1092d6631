//===- runtime/json_mistake.h - where a text is no JSON ---------------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <nlohmann/json.hpp>

#include <string>

namespace braid {

/// "3:14", line and column of a byte, which is counted from 1 on, as the parser does; 0 is the
/// first.
std::string lineAndColumn(llvm::StringRef text, size_t byte);

/// What the parser refused: "3:14: expected JSON", or "3:14: expected a finite number, got 1e999".
std::string jsonMistake(llvm::StringRef text, const nlohmann::json::exception &error);

/// As Json::parse(), which throws, but without what is nested more deeply than any file of ours: an
/// object that grows copies what it has, level by level, and the stack would end.
template <class Json> Json parsedJson(llvm::StringRef text) {
  constexpr int kDeepest = 64;
  return Json::parse(text.begin(), text.end(),
                     [](int depth, auto, const Json &) { return depth <= kDeepest; });
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
