//===- runtime/job/flight_record.cpp - the text of flight records -----------------------------===//

#include "runtime/job/flight_record.h"

#include "ir/failure.h"
#include "runtime/json.h"

#include "llvm/Support/FormatVariadic.h"

namespace braid {

// LLVM finds these overloads by argument-dependent lookup.

static JsonValue toJSON(const RankRecord &rank) {
  return JsonObject{{"doing", jsonString(rank.doing)},
                    {"issued", rank.issued},
                    {"completed", rank.completed},
                    {"commands", rank.commands}};
}

static JsonValue toJSON(const FlightRecords &records) {
  const RecordedCause &cause = records.cause;
  return JsonObject{
      {"braid_flight_records", FlightRecords::kVersion},
      {"job", jsonString(records.job)},
      {"program", jsonString(records.program)},
      {"source", jsonString(records.source)},
      {"fingerprint", records.fingerprint},
      {"cause",
       JsonObject{{"code", cause.code}, {"rank", cause.rank}, {"text", jsonString(cause.text)}}},
      {"committed", records.committed},
      {"ranks", records.ranks}};
}

static bool fromJSON(const JsonValue &json, RecordedCause &cause, llvm::json::Path path) {
  llvm::json::ObjectMapper object(json, path);
  return object && object.map("code", cause.code) && object.map("rank", cause.rank) &&
         object.map("text", cause.text);
}

static bool fromJSON(const JsonValue &json, RankRecord &rank, llvm::json::Path path) {
  llvm::json::ObjectMapper object(json, path);
  return object && object.map("doing", rank.doing) && object.map("issued", rank.issued) &&
         object.map("completed", rank.completed) && object.map("commands", rank.commands);
}

static bool fromJSON(const JsonValue &json, FlightRecords &records, llvm::json::Path path) {
  llvm::json::ObjectMapper object(json, path);
  return object && object.map("job", records.job) && object.map("program", records.program) &&
         object.map("source", records.source) && object.map("fingerprint", records.fingerprint) &&
         object.map("cause", records.cause) && object.map("committed", records.committed) &&
         object.map("ranks", records.ranks);
}

std::string FlightRecords::encode() const { return llvm::formatv("{0:2}\n", toJSON(*this)); }

Result<FlightRecords> FlightRecords::decode(llvm::StringRef text, llvm::StringRef name) {
  const Result<JsonValue> json = parseJson(text);
  if (!json)
    return badInput("{}:{}", name.str(), json.status().message());
  const JsonObject *object = json->getAsObject();
  FlightRecords records;
  const JsonValue *version = object ? object->get("braid_flight_records") : nullptr;
  if (!version || version->getAsInteger() != kVersion)
    return badInput("{}: expected flight records of version {}, got {}", name.str(), kVersion,
                    version ? jsonGot(version) : "other JSON");
  llvm::json::Path::Root root("records");
  if (!fromJSON(*json, records, root))
    return badInput("{}: {}", name.str(), llvm::toString(root.getError()));
  if (records.ranks.empty())
    return badInput("{}: expected records of at least one rank, got none", name.str());
  return records;
}

} // namespace braid
