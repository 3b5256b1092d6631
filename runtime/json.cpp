//===- runtime/json.cpp - helpers for reading and writing JSON --------------------------------===//

#include "runtime/json.h"

#include "ir/failure.h"
#include "ir/printable.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <cmath>

namespace braid {
namespace {

/// Returns the line and column of a byte offset, for example "3:14".
std::string placeOf(llvm::StringRef text, size_t byte) {
  const llvm::StringRef before = text.take_front(byte);
  const size_t column = before.size() - (before.rfind('\n') + 1) + 1; // npos + 1 is 0
  return fmt::format("{}:{}", before.count('\n') + 1, column);
}

/// Returns the position of the first bracket nested deeper than `most` levels, or npos.
size_t findDeepBracket(llvm::StringRef text, int most) {
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

} // namespace

/// LLVM's error messages look like "[3:14, byte=40]: Expected JSON value".
Result<JsonValue> parseJson(llvm::StringRef text) {
  const size_t deep = findDeepBracket(text, kMostJsonLevels);
  if (deep != llvm::StringRef::npos)
    return badInput("{}: expected JSON nested at most {} levels deep", placeOf(text, deep),
                    kMostJsonLevels);
  llvm::Expected<JsonValue> parsed = llvm::json::parse(text);
  if (parsed)
    return std::move(*parsed);
  const std::string message = llvm::toString(parsed.takeError());
  size_t byte = 0; // one past the last byte read
  llvm::StringRef(message).split("byte=").second.consumeInteger(10, byte);
  const bool isAtEnd = byte == text.size() && !text.empty() && llvm::isSpace(text.back());
  return badInput("{}: expected JSON", placeOf(text, isAtEnd || byte == 0 ? byte : byte - 1));
}

std::string jsonGot(const JsonValue *value) {
  constexpr size_t kMost = 60;
  if (!value || value->kind() == JsonValue::Null)
    return "nothing";
  if (value->kind() == JsonValue::Array || value->kind() == JsonValue::Object)
    return value->kind() == JsonValue::Array ? "an array" : "an object";
  const std::string text = printable(jsonText([&](JsonWriter &json) {
    if (const auto number = value->getAsNumber(); number && !value->getAsInteger())
      json.rawValue(fmt::format("{}", *number)); // may be infinite
    else
      json.value(*value);
  }));
  return text.size() > kMost ? text.substr(0, kMost) + "..." : text;
}

JsonValue jsonString(llvm::StringRef text) {
  return llvm::json::isUTF8(text) ? JsonValue(text.str()) : JsonValue(llvm::json::fixUTF8(text));
}

std::string jsonNumber(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string jsonText(llvm::function_ref<void(JsonWriter &)> write, unsigned indent) {
  std::string text;
  llvm::raw_string_ostream os(text);
  JsonWriter writer(os, indent);
  write(writer);
  os.flush();
  return text;
}

} // namespace braid
