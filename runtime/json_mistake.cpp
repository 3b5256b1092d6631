//===- runtime/json_mistake.cpp - where a text is no JSON -------------------------------------===//

#include "runtime/json_mistake.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid {

std::string lineAndColumn(llvm::StringRef text, size_t byte) {
  const llvm::StringRef before = text.take_front(byte == 0 ? 0 : byte - 1);
  const size_t line = before.count('\n') + 1;
  const size_t lastBreak = before.rfind('\n');
  const size_t column =
      before.size() - (lastBreak == llvm::StringRef::npos ? 0 : lastBreak + 1) + 1;
  return fmt::format("{}:{}", line, column);
}

size_t nestsTooDeeplyAt(llvm::StringRef text, int most) {
  int depth = 0;
  bool isInString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char each = text[i];
    if (isInString && each == '\\')
      ++i;
    else if (each == '"')
      isInString = !isInString;
    else if (!isInString && (each == '[' || each == '{') && ++depth > most)
      return i;
    else if (!isInString && (each == ']' || each == '}'))
      --depth;
  }
  return llvm::StringRef::npos;
}

llvm::StringRef withoutEnds(llvm::StringRef text, std::string &copy) {
  if (!text.contains('\0'))
    return text;
  copy = text.str();
  std::replace(copy.begin(), copy.end(), '\0', '\1');
  return copy;
}

/// A number that overflows has no position, but it is quoted: the first one like it is that one.
std::string jsonMistake(llvm::StringRef text, const nlohmann::json::exception &error) {
  if (const auto *parse = dynamic_cast<const nlohmann::json::parse_error *>(&error)) {
    const bool isDeep = parse->byte > nestsTooDeeplyAt(text, kDeepestJson);
    return lineAndColumn(text, parse->byte) +
           (isDeep ? fmt::format(": expected JSON of at most {} levels", kDeepestJson)
                   : ": expected JSON");
  }
  const llvm::StringRef number = llvm::StringRef(error.what()).split('\'').second.split('\'').first;
  const size_t at = number.empty() ? llvm::StringRef::npos : text.find(number);
  return fmt::format("{}: expected a finite number, got {}",
                     lineAndColumn(text, at == llvm::StringRef::npos ? 0 : at + 1), number.str());
}

} // namespace braid
