//===- runtime/json.h - helpers for reading and writing JSON ----------------------------------===//
#pragma once

#include "api/status.h"

#include "llvm/Support/JSON.h"

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace braid {

using JsonValue = llvm::json::Value;
using JsonObject = llvm::json::Object;
using JsonArray = llvm::json::Array;

/// The maximum nesting depth of JSON that is read or written. The parser recurses once per level.
inline constexpr int kMostJsonLevels = 64;

/// Parses a complete JSON text. Error messages start with the location, for example "3:14: expected
/// JSON" or "3:14: expected JSON of at most 64 levels"; the caller prepends the file name. Numbers
/// out of range for a double become infinite, and integers beyond 63 bits saturate, so readers must
/// check ranges, and fingerprints must be written as hexadecimal strings.
Result<JsonValue> parseJson(llvm::StringRef text);

/// Describes a rejected value in a message: "an array" or "an object"; "nothing" for null or a
/// missing field (a null pointer); otherwise at most 60 characters of the value in printable ASCII.
std::string jsonGot(const JsonValue *value);

/// Returns the value of `maybe`, or `fallback` if it is empty. LLVM returns llvm::Optional up to
/// LLVM 15 and std::optional from LLVM 17 on; the two have no common member function for this.
template <class Maybe, class T> auto valueOr(const Maybe &maybe, const T &fallback) {
  return maybe ? *maybe : std::decay_t<decltype(*maybe)>(fallback);
}

/// Returns `text` as a JSON string. Invalid UTF-8 is replaced with U+FFFD.
JsonValue jsonString(llvm::StringRef text);

/// Formats a double with the fewest digits that round-trip. Returns "null" if it is not finite.
std::string jsonNumber(double value);

/// A streaming JSON writer: `json.object([&] { json.attribute("key", 1); })`. Extends LLVM's
/// writer, which prints doubles with 17 digits.
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
  /// Writes an array.
  template <class T> void value(const std::vector<T> &contents) {
    array([&] {
      for (const T &each : contents)
        value(each);
    });
  }
  template <class T> void attribute(llvm::StringRef key, const T &contents) {
    attributeBegin(key);
    value(contents);
    attributeEnd();
  }
  /// Writes an array attribute; `write(JsonWriter &, element)` is called for each element.
  template <class Range, class Write>
  void attributeList(llvm::StringRef key, const Range &range, Write write) {
    attributeArray(key, [&] {
      for (const auto &each : range)
        write(*this, each);
    });
  }
  /// Writes its arguments as an array: `[1,"two"]`.
  template <class... T> void tuple(const T &...values) {
    array([&] { (value(values), ...); });
  }
};

/// Returns the output of `write(JsonWriter &)`: on one line if `indent` is 0, else indented.
std::string jsonText(llvm::function_ref<void(JsonWriter &)> write, unsigned indent = 0);

} // namespace braid
