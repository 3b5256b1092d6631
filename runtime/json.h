//===- runtime/json.h - what every reader and writer of JSON shares ---------------------------===//
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

/// No file that Braid reads or writes nests more deeply. The parser recurses once for each level.
inline constexpr int kMostJsonLevels = 64;

/// Parses a whole text. The message of an error begins with the place: "3:14: expected JSON", or
/// "3:14: expected JSON of at most 64 levels"; the caller puts the file's name in front.
/// Numbers beyond the range of a double become infinite, integers beyond 63 bits the largest one:
/// readers check the range of what they read, and fingerprints are written as hexadecimal text.
Result<JsonValue> parseJson(llvm::StringRef text);

/// Describes the value that a reader refused: its start, at most 60 characters of printable ASCII;
/// "array" or "object"; "nothing" for null and for a missing field (a null pointer).
std::string jsonGot(const JsonValue *value);

/// The value of an optional result of LLVM, or `fallback`. Up to version 15 it is llvm::Optional,
/// from 17 on std::optional; no member for this has the same name in both.
template <class Maybe, class T> auto valueOr(const Maybe &maybe, const T &fallback) {
  return maybe ? *maybe : std::decay_t<decltype(*maybe)>(fallback);
}

/// A string as a value. Bytes that are no UTF-8 are replaced by U+FFFD.
JsonValue jsonString(llvm::StringRef text);

/// A double with as few digits as give the same double again; null if it is not finite.
std::string jsonNumber(double value);

/// Writes JSON in the order of the calls: `json.object([&] { json.attribute("key", 1); })`. LLVM's
/// writer, but for doubles, which it would print with 17 digits.
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
  /// Null if there is none.
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
  /// An array of what `write(JsonWriter &, element)` writes for each element.
  template <class Range, class Write>
  void attributeList(llvm::StringRef key, const Range &range, Write write) {
    attributeArray(key, [&] {
      for (const auto &each : range)
        write(*this, each);
    });
  }
  /// An array of a few values: `[1,"two"]`.
  template <class... T> void tuple(const T &...values) {
    array([&] { (value(values), ...); });
  }
};

/// Returns what `write(JsonWriter &)` writes, on one line, or with `indent` spaces for each level.
std::string jsonText(llvm::function_ref<void(JsonWriter &)> write, unsigned indent = 0);

} // namespace braid
