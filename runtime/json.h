//===- runtime/json.h - helpers for reading and writing JSON ----------------------------------===//
#pragma once

#include "api/status.h"

#include "llvm/Support/JSON.h"

#include <optional>
#include <string>
#include <type_traits>

namespace braid {

using JsonValue = llvm::json::Value;
using JsonObject = llvm::json::Object;
using JsonArray = llvm::json::Array;

/// The maximum nesting of files that Braid reads and writes. The parser recurses once per level.
inline constexpr int kMostJsonLevels = 64;

/// Parses a whole text. An error message starts with the location, for example "3:14: expected
/// JSON" or "3:14: expected JSON of at most 64 levels"; the caller prepends the file's name.
/// Numbers beyond the range of a double become infinite, and integers beyond 63 bits saturate:
/// readers must check ranges, and fingerprints are written as hexadecimal text.
Result<JsonValue> parseJson(llvm::StringRef text);

/// Describes a rejected value: its first 60 characters at most, in printable ASCII; "array" or
/// "object"; "nothing" for null and for a missing field (a null pointer).
std::string jsonGot(const JsonValue *value);

/// Returns the value of an LLVM optional, or `fallback`. It is llvm::Optional up to LLVM 15 and
/// std::optional from 17 on, which have no common member for this.
template <class Maybe, class T> auto valueOr(const Maybe &maybe, const T &fallback) {
  return maybe ? *maybe : std::decay_t<decltype(*maybe)>(fallback);
}

/// Returns a string value. Invalid UTF-8 is replaced by U+FFFD.
JsonValue jsonString(llvm::StringRef text);

/// Formats a double with the fewest digits that preserve its value. Returns null if it is not
/// finite.
std::string jsonNumber(double value);

/// Writes JSON in the order of the calls: `json.object([&] { json.attribute("key", 1); })`. This is
/// LLVM's writer except for doubles, which LLVM prints with 17 digits.
class JsonWriter : public llvm::json::OStream {
public:
  using OStream::OStream;

  template <class T> void value(const T &contents) {
    if constexpr (std::is_floating_point_v<T>)
      rawValue(jsonNumber(contents));
    else if constexpr (std::is_convertible_v<const T &, llvm::StringRef>)
      OStream::value(jsonString(contents));
    else
      OStream::value(contents);
  }
  /// Writes null for an empty optional.
  template <class T> void value(const std::optional<T> &contents) {
    if (contents)
      value(*contents);
    else
      OStream::value(nullptr);
  }
  template <class T> void attribute(llvm::StringRef key, const T &contents) {
    attributeBegin(key);
    value(contents);
    attributeEnd();
  }
  /// Writes an array; `write(JsonWriter &, element)` writes each element.
  template <class Range, class Write>
  void attributeList(llvm::StringRef key, const Range &range, Write write) {
    attributeArray(key, [&] {
      for (const auto &each : range)
        write(*this, each);
    });
  }
  /// Writes an array of a few values: `[1,"two"]`.
  template <class... T> void tuple(const T &...values) {
    array([&] { (value(values), ...); });
  }
};

/// Returns the output of `write(JsonWriter &)`, on one line or with `indent` spaces per level.
std::string jsonText(llvm::function_ref<void(JsonWriter &)> write, unsigned indent = 0);

} // namespace braid
