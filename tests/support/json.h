//===- tests/support/json.h - access to JSON values by keys and indices -----------------------===//
#pragma once

#include "runtime/json.h"

#include <memory>
#include <ostream>
#include <vector>

namespace braid::test {

/// A value of a parsed text, with shared ownership. A missing key or index yields null.
class Json {
public:
  /// Returns null if the text is not valid JSON.
  static Json parse(llvm::StringRef text) {
    Result<JsonValue> value = parseJson(text);
    return Json(std::make_shared<JsonValue>(value ? std::move(*value) : JsonValue(nullptr)));
  }

  Json operator[](llvm::StringRef key) const {
    const JsonObject *object = value_->getAsObject();
    return part(object ? object->get(key) : nullptr);
  }
  Json at(size_t index) const {
    const JsonArray *array = value_->getAsArray();
    return part(array && index < array->size() ? &(*array)[index] : nullptr);
  }
  bool contains(llvm::StringRef key) const { return *(*this)[key].value_ != JsonValue(nullptr); }

  std::vector<Json> elements() const {
    std::vector<Json> elements;
    if (const JsonArray *array = value_->getAsArray())
      for (const JsonValue &each : *array)
        elements.push_back(part(&each));
    return elements;
  }
  const JsonValue &value() const { return *value_; }
  std::string text() const { return valueOr(value_->getAsString(), llvm::StringRef()).str(); }
  int64_t integer() const { return valueOr(value_->getAsInteger(), int64_t(0)); }
  double number() const { return valueOr(value_->getAsNumber(), 0.0); }

  friend bool operator==(const Json &json, const JsonValue &other) { return *json.value_ == other; }
  friend bool operator==(const Json &a, const Json &b) { return *a.value_ == *b.value_; }
  friend std::ostream &operator<<(std::ostream &os, const Json &json) {
    return os << jsonText([&](JsonWriter &out) { out.value(*json.value_); });
  }

private:
  explicit Json(std::shared_ptr<const JsonValue> value) : value_(std::move(value)) {}

  Json part(const JsonValue *value) const {
    static const JsonValue null(nullptr);
    return Json(std::shared_ptr<const JsonValue>(value_, value ? value : &null));
  }

  std::shared_ptr<const JsonValue> value_;
};

} // namespace braid::test
