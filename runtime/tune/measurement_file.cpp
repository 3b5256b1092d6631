//===- runtime/tune/measurement_file.cpp - the text format of measurement files ---------------===//

#include "runtime/tune/measurement_file.h"

#include "ir/failure.h"
#include "runtime/json.h"

namespace braid {

static constexpr const char *kVersionKey = "braid measurements";
static constexpr int64_t kVersion = 2;

std::string MeasurementFile::encode() const {
  auto write = [&](JsonWriter &json) {
    json.object([&] {
      json.attribute(kVersionKey, kVersion);
      json.attribute("machine", machine);
      json.attributeObject("entries", [&] {
        for (const auto &[key, value] : entries)
          json.attribute(key, value);
      });
    });
  };
  return jsonText(write, 1) + "\n";
}

Result<MeasurementFile> MeasurementFile::decode(llvm::StringRef text) {
  const Result<JsonValue> json = parseJson(text);
  if (!json)
    return badInput("it is corrupt: {}", json.status().message());
  const JsonObject *object = json->getAsObject();
  if (!object || valueOr(object->getInteger(kVersionKey), 0) != kVersion)
    return badInput("it was written by another version of Braid");
  MeasurementFile file{valueOr(object->getString("machine"), "").str(), {}};
  if (const JsonObject *entries = object->getObject("entries"))
    for (const auto &[key, value] : *entries)
      file.entries[key.str()] = valueOr(value.getAsString(), "").str();
  return file;
}

} // namespace braid
