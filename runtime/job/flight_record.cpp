//===- runtime/job/flight_record.cpp - what the ranks of a failed job were doing --------------===//

#include "runtime/job/flight_record.h"

#include "ir/failure.h"
#include "runtime/json.h"

#include "llvm/Support/FormatVariadic.h"

#include <fmt/format.h>

namespace braid {

// -- Lists the members of each record once: `io` reads or writes them. --

template <class Io> static void members(Io &io, RecordedCommand &command) {
  io("kind", command.kind);
  io("stream", command.stream);
  io("text", command.text);
  io("place", command.place);
  io("trips", command.trips);
  io("run", command.run);
  io("peer", command.peer);
  io("begin_ns", command.beginNs);
  io("end_ns", command.endNs);
}

template <class Io> static void members(Io &io, RecordedCause &cause) {
  io("code", cause.code);
  io("rank", cause.rank);
  io("text", cause.text);
}

template <class Io> static void members(Io &io, RankRecord &rank) {
  io("doing", rank.doing);
  io("issued", rank.issued);
  io("completed", rank.completed);
  io("commands", rank.commands);
  io("current", rank.current);
  io("flight", rank.flight);
}

template <class Io> static void members(Io &io, FlightRecords &records) {
  io("braid_flight_records", records.version);
  io("job", records.job);
  io("program", records.program);
  io("source", records.source);
  io("fingerprint", records.fingerprint);
  io("cause", records.cause);
  io("committed", records.committed);
  io("ranks", records.ranks);
}

namespace {

struct Writer {
  JsonObject object;

  void operator()(llvm::StringRef key, const std::string &text) { object[key] = jsonString(text); }
  template <class T> void operator()(llvm::StringRef key, const T &value) { object[key] = value; }
};

struct Reader {
  llvm::json::ObjectMapper object;
  bool isGood = bool(object);

  template <class T> void operator()(llvm::StringLiteral key, T &value) {
    isGood = isGood && object.map(key, value);
  }
};

template <class T> JsonValue written(T value) {
  Writer writer;
  members(writer, value);
  return std::move(writer.object);
}

template <class T> bool read(const JsonValue &json, T &value, llvm::json::Path path) {
  Reader reader{{json, path}};
  members(reader, value);
  return reader.isGood;
}

} // namespace

// LLVM finds these overloads by argument-dependent lookup.
static JsonValue toJSON(const RecordedCommand &command) { return written(command); }
static JsonValue toJSON(const RecordedCause &cause) { return written(cause); }
static JsonValue toJSON(const RankRecord &rank) { return written(rank); }
JsonValue toJSON(const FlightRecords &records) { return written(records); }
static bool fromJSON(const JsonValue &json, RecordedCommand &command, llvm::json::Path path) {
  return read(json, command, path);
}
static bool fromJSON(const JsonValue &json, RecordedCause &cause, llvm::json::Path path) {
  return read(json, cause, path);
}
static bool fromJSON(const JsonValue &json, RankRecord &rank, llvm::json::Path path) {
  return read(json, rank, path);
}

std::string FlightRecords::encode() const { return llvm::formatv("{0:2}\n", toJSON(*this)); }

Result<FlightRecords> FlightRecords::decode(llvm::StringRef text, llvm::StringRef name) {
  const Result<JsonValue> json = parseJson(text);
  if (!json)
    return badInput("{}:{}", name.str(), json.status().message());
  const JsonObject *object = json->getAsObject();
  FlightRecords records;
  const JsonValue *version = object ? object->get("braid_flight_records") : nullptr;
  if (!version || version->getAsInteger() != records.version)
    return badInput("{}: expected flight records of version {}, got {}", name.str(),
                    records.version, version ? jsonGot(version) : "other JSON");
  llvm::json::Path::Root root("records");
  if (!read(*json, records, root))
    return badInput("{}: {}", name.str(), llvm::toString(root.getError()));
  if (records.ranks.empty())
    return badInput("{}: expected records of at least one rank, got none", name.str());
  return records;
}

} // namespace braid
