//===- runtime/job/flight_record.cpp - what one rank of a failed job was doing ----------------===//

#include "runtime/job/flight_record.h"

#include "ir/failure.h"
#include "runtime/json.h"

#include "llvm/Support/FormatVariadic.h"

#include <fmt/format.h>

namespace braid {

// -- The members of a record, named once: `io` reads or writes each. --

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

template <class Io> static void members(Io &io, FlightRecord &record) {
  io("braid_flight_record", record.version);
  io("job", record.job);
  io("rank", record.rank);
  io("ranks", record.ranks);
  io("program", record.program);
  io("source", record.source);
  io("fingerprint", record.fingerprint);
  io("cause", record.cause);
  io("committed", record.committed);
  io("doing", record.doing);
  io("issued", record.issued);
  io("completed", record.completed);
  io("commands", record.commands);
  io("current", record.current);
  io("flight", record.flight);
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

// LLVM finds these by their arguments.
static JsonValue toJSON(const RecordedCommand &command) { return written(command); }
static JsonValue toJSON(const RecordedCause &cause) { return written(cause); }
JsonValue toJSON(const FlightRecord &record) { return written(record); }
static bool fromJSON(const JsonValue &json, RecordedCommand &command, llvm::json::Path path) {
  return read(json, command, path);
}
static bool fromJSON(const JsonValue &json, RecordedCause &cause, llvm::json::Path path) {
  return read(json, cause, path);
}

std::string FlightRecord::encode() const { return llvm::formatv("{0:2}\n", toJSON(*this)); }

Result<FlightRecord> FlightRecord::decode(llvm::StringRef text, llvm::StringRef name) {
  const Result<JsonValue> json = parseJson(text);
  if (!json)
    return badInput("{}:{}", name.str(), json.status().message());
  const JsonObject *object = json->getAsObject();
  FlightRecord record;
  const JsonValue *version = object ? object->get("braid_flight_record") : nullptr;
  if (!version || version->getAsInteger() != record.version)
    return badInput("{}: expected a flight record of version {}, got {}", name.str(),
                    record.version, version ? jsonGot(version) : "other JSON");
  llvm::json::Path::Root root("record");
  if (!read(*json, record, root))
    return badInput("{}: {}", name.str(), llvm::toString(root.getError()));
  constexpr int64_t kMostRanks = 1 << 16;
  if (record.rank < 0 || record.rank >= record.ranks || record.ranks > kMostRanks)
    return badInput("{}: expected a rank of at most {} ranks, got rank {} of {}", name.str(),
                    kMostRanks, record.rank, record.ranks);
  return record;
}

} // namespace braid
