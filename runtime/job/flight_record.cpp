//===- runtime/job/flight_record.cpp - records as text ----------------------------------------===//

#include "runtime/job/flight_record.h"

#include "ir/failure.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

namespace braid {

namespace {

using Json = nlohmann::ordered_json;

// By the values of RankState and HostActivity.
constexpr const char *kStates[] = {"absent", "joined", "left", "dead"};
constexpr const char *kActivities[] = {"own code", "preparing", "all-gather", "synchronize",
                                       "commit"};
constexpr const char *kVersionKey = "braid_flight_record";
constexpr uint64_t kMostRanks = 1 << 16;
constexpr int kDeepest = 8; ///< no record nests more deeply

// -- Out. --

Json idJson(const std::optional<CommandId> &id) {
  if (!id)
    return nullptr;
  return {{"run", id->run}, {"command", id->command}};
}

Json causeJson(const std::optional<FlightCause> &cause) {
  if (!cause)
    return nullptr;
  return {{"code", static_cast<int>(cause->code)}, {"rank", cause->rank}, {"text", cause->text}};
}

Json json(const std::string &stream) { return stream; }
Json json(const FlightNode &node) { return {{"text", node.text}, {"place", node.place}}; }

Json json(const FlightCommand &command) {
  Json json = {{"index", command.index}, {"kind", command.kind}, {"stream", command.stream}};
  if (command.node != kNone)
    json["node"] = command.node;
  if (!command.trips.empty())
    json["trips"] = command.trips;
  if (command.peer >= 0)
    json["peer"] = command.peer;
  return json;
}

Json json(const QueueSnapshot &queue) {
  return {{"completed", queue.completed},
          {"current", idJson(queue.current)},
          {"since_ns", queue.sinceNs},
          {"waiting", queue.isWaiting},
          {"flag", queue.flagValue},
          {"wanted", queue.wantedValue},
          {"last_done", idJson(queue.lastDone)}};
}

Json json(const FlightSnapshot &entry) {
  return {{"sequence", entry.sequence}, {"run", entry.id.run},       {"command", entry.id.command},
          {"queue", entry.queue},       {"begin_ns", entry.beginNs}, {"end_ns", entry.endNs},
          {"flag", entry.flagValue}};
}

/// One member a line, and one element a line of a list.
class Writer {
public:
  void member(const char *key, const Json &value) { line(key) += dump(value); }

  template <class T> void list(const char *key, const std::vector<T> &values) {
    std::string &text = line(key);
    text += '[';
    for (size_t i = 0; i < values.size(); ++i)
      text += (i == 0 ? "\n    " : ",\n    ") + dump(json(values[i]));
    text += values.empty() ? "]" : "\n  ]";
  }

  std::string take() { return text_ + "\n}\n"; }

private:
  static std::string dump(const Json &value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  std::string &line(const char *key) {
    text_ += fmt::format("{}\n  \"{}\": ", text_.empty() ? "{" : ",", key);
    return text_;
  }

  std::string text_;
};

// -- In. --

/// Reads members of objects, and keeps the first thing that is wrong.
class Reader {
public:
  explicit Reader(llvm::StringRef name) : name_(name.str()) {}

  const Status &status() const { return status_; }

  void fail(const std::string &message) {
    if (status_.isOk())
      status_ = badInput("{}: {}", name_, message);
  }

  void expected(const std::string &what, const std::string &path, const Json &got) {
    constexpr size_t kMostShown = 40;
    // Escapes whatever is not printable ASCII.
    std::string text = got.is_structured()
                           ? got.type_name()
                           : got.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > kMostShown)
      text = text.substr(0, kMostShown) + "...";
    fail(fmt::format("expected {} to be {}, got {}", path, what, text));
  }

  /// The member, or a null that has been complained about.
  const Json &member(const Json &object, const std::string &path, const char *key) {
    static const Json kNull;
    if (auto found = object.find(key); found != object.end())
      return *found;
    fail(fmt::format("expected {}, got nothing", at(path, key)));
    return kNull;
  }

  template <class T = uint64_t>
  T number(const Json &object, const std::string &path, const char *key,
           uint64_t most = std::numeric_limits<T>::max()) {
    const Json &value = member(object, path, key);
    if (value.is_number_unsigned() && value.get<uint64_t>() <= most)
      return static_cast<T>(value.get<uint64_t>());
    expected(fmt::format("a whole number up to {}", most), at(path, key), value);
    return 0;
  }

  /// A rank, or -1.
  int64_t rankOrNone(const Json &object, const std::string &path, const char *key, int64_t ranks) {
    const Json &value = member(object, path, key);
    if (value.is_number_integer() && value.get<int64_t>() >= -1 && value.get<int64_t>() < ranks)
      return value.get<int64_t>();
    expected(fmt::format("a rank below {}, or -1", ranks), at(path, key), value);
    return -1;
  }

  bool truth(const Json &object, const std::string &path, const char *key) {
    const Json &value = member(object, path, key);
    if (value.is_boolean())
      return value.get<bool>();
    expected("true or false", at(path, key), value);
    return false;
  }

  std::string text(const Json &object, const std::string &path, const char *key) {
    return text(member(object, path, key), at(path, key));
  }
  std::string text(const Json &value, const std::string &path) {
    if (value.is_string())
      return value.get<std::string>();
    expected("a text", path, value);
    return "";
  }

  template <class Enum, size_t N>
  Enum choice(const Json &object, const char *key, const char *const (&names)[N]) {
    const std::string got = text(object, "", key);
    for (size_t i = 0; i < N; ++i)
      if (got == names[i])
        return static_cast<Enum>(i);
    expected(fmt::format("one of {}", fmt::join(names, ", ")), key, Json(got));
    return Enum(0);
  }

  /// Calls `read(element, path of the element)` for each element.
  template <class Read>
  void list(const Json &object, const char *key, size_t most, const Read &read) {
    const Json &values = member(object, "", key);
    if (!values.is_array() || values.size() > most)
      return expected(fmt::format("a list of at most {} elements", most), key, values);
    for (size_t i = 0; i < values.size() && status_.isOk(); ++i)
      read(values[i], fmt::format("{}[{}]", key, i));
  }

  bool isObject(const Json &value, const std::string &path) {
    if (value.is_object())
      return true;
    expected("an object", path, value);
    return false;
  }

private:
  static std::string at(const std::string &path, const char *key) {
    return path.empty() ? key : path + "." + key;
  }

  std::string name_;
  Status status_;
};

std::optional<CommandId> readId(Reader &reader, const Json &object, const std::string &path,
                                const char *key) {
  const Json &value = reader.member(object, path, key);
  const std::string inner = path + "." + key;
  if (value.is_null() || !reader.isObject(value, inner))
    return std::nullopt;
  return CommandId{reader.number<uint32_t>(value, inner, "run"),
                   reader.number<uint32_t>(value, inner, "command")};
}

/// Whole numbers, of either sign.
std::vector<int64_t> readTrips(Reader &reader, const Json &command, const std::string &path) {
  std::vector<int64_t> trips;
  auto found = command.find("trips");
  if (found == command.end())
    return trips;
  if (!found->is_array())
    reader.expected("a list", path + ".trips", *found);
  for (const Json &trip : *found)
    if (trip.is_number_integer())
      trips.push_back(trip.get<int64_t>());
    else
      reader.expected("whole numbers", path + ".trips", trip);
  return trips;
}

std::optional<FlightCause> readCause(Reader &reader, const Json &json, int64_t ranks) {
  const Json &cause = reader.member(json, "", "cause");
  if (cause.is_null() || !reader.isObject(cause, "cause"))
    return std::nullopt;
  const int code = reader.number<int>(cause, "cause", "code");
  switch (static_cast<StatusCode>(code)) {
  case StatusCode::WrongResult:
  case StatusCode::BadInput:
  case StatusCode::Rejected:
  case StatusCode::Unsupported:
  case StatusCode::PeerFailed:
  case StatusCode::TimedOut:
  case StatusCode::Internal:
    break;
  default:
    reader.expected("an exit code of a failure", "cause.code", code);
  }
  return FlightCause{static_cast<StatusCode>(code),
                     reader.rankOrNone(cause, "cause", "rank", ranks),
                     reader.text(cause, "cause", "text")};
}

/// What the record says before its lists.
void readHead(Reader &reader, const Json &json, FlightRecord &record) {
  record.job = reader.text(json, "", "job");
  record.ranks = reader.number<int64_t>(json, "", "ranks", kMostRanks);
  if (record.ranks < 1)
    return reader.fail("expected ranks to be at least 1, got 0");
  record.rank = reader.number<int64_t>(json, "", "rank", static_cast<uint64_t>(record.ranks) - 1);
  record.program = reader.text(json, "", "program");
  record.source = reader.text(json, "", "source");
  const std::string fingerprint = reader.text(json, "", "fingerprint");
  if (llvm::StringRef(fingerprint).getAsInteger(16, record.fingerprint))
    reader.expected("16 hexadecimal digits", "fingerprint", Json(fingerprint));
  record.cause = readCause(reader, json, record.ranks);
  record.committed = reader.number<uint32_t>(json, "", "committed");
  record.recordedNs = reader.number(json, "", "recorded_ns");
  record.state.state = reader.choice<RankState>(json, "state", kStates);
  record.state.activity = reader.choice<HostActivity>(json, "activity", kActivities);
  record.state.activitySinceNs = reader.number(json, "", "activity_since_ns");
  record.state.heartbeatNs = reader.number(json, "", "heartbeat_ns");
  record.state.issued = reader.number(json, "", "issued");
  record.state.runs = reader.number<uint32_t>(json, "", "runs");
}

FlightCommand readCommand(Reader &reader, const Json &value, const std::string &path,
                          const FlightRecord &record) {
  FlightCommand command;
  command.index = reader.number<uint32_t>(value, path, "index");
  command.kind = reader.text(value, path, "kind");
  command.stream = reader.number<uint32_t>(value, path, "stream");
  if (value.contains("node"))
    command.node = reader.number<uint32_t>(value, path, "node");
  if (command.node != kNone && command.node >= record.nodes.size())
    reader.fail(fmt::format("expected {}.node to be below {}, got {}", path, record.nodes.size(),
                            command.node));
  command.trips = readTrips(reader, value, path);
  if (value.contains("peer"))
    command.peer = reader.rankOrNone(value, path, "peer", record.ranks);
  if (!record.commands.empty() && record.commands.back().index >= command.index)
    reader.fail(fmt::format("expected {}.index to be above {}, got {}", path,
                            record.commands.back().index, command.index));
  return command;
}

QueueSnapshot readQueue(Reader &reader, const Json &value, const std::string &path) {
  QueueSnapshot queue;
  queue.completed = reader.number(value, path, "completed");
  queue.current = readId(reader, value, path, "current");
  queue.sinceNs = reader.number(value, path, "since_ns");
  queue.isWaiting = reader.truth(value, path, "waiting");
  queue.flagValue = reader.number<uint32_t>(value, path, "flag");
  queue.wantedValue = reader.number<uint32_t>(value, path, "wanted");
  queue.lastDone = readId(reader, value, path, "last_done");
  return queue;
}

FlightSnapshot readEntry(Reader &reader, const Json &value, const std::string &path,
                         const FlightRecord &record) {
  FlightSnapshot entry;
  entry.sequence = reader.number(value, path, "sequence");
  entry.id.run = reader.number<uint32_t>(value, path, "run");
  entry.id.command = reader.number<uint32_t>(value, path, "command");
  entry.queue = reader.number<uint32_t>(value, path, "queue");
  entry.beginNs = reader.number(value, path, "begin_ns");
  entry.endNs = reader.number(value, path, "end_ns");
  entry.flagValue = reader.number<uint32_t>(value, path, "flag");
  const uint64_t last = record.flight.empty() ? 0 : record.flight.back().sequence;
  if (entry.sequence <= last)
    reader.fail(
        fmt::format("expected {}.sequence to be above {}, got {}", path, last, entry.sequence));
  return entry;
}

void readLists(Reader &reader, const Json &json, FlightRecord &record) {
  constexpr size_t kMost = 1 << 20;
  reader.list(json, "streams", kMost, [&](const Json &value, const std::string &path) {
    record.streams.push_back(reader.text(value, path));
  });
  // Reads one object of a list.
  auto objects = [&](const char *key, size_t most, auto &into, auto read) {
    reader.list(json, key, most, [&](const Json &value, const std::string &path) {
      if (reader.isObject(value, path))
        into.push_back(read(value, path));
    });
  };
  objects("nodes", kMost, record.nodes, [&](const Json &value, const std::string &path) {
    return FlightNode{reader.text(value, path, "text"), reader.text(value, path, "place")};
  });
  objects("commands", kMost, record.commands, [&](const Json &value, const std::string &path) {
    return readCommand(reader, value, path, record);
  });
  objects(
      "queues", kQueueSlots, record.state.queues,
      [&](const Json &value, const std::string &path) { return readQueue(reader, value, path); });
  objects("flight", kFlightEntries, record.flight, [&](const Json &value, const std::string &path) {
    return readEntry(reader, value, path, record);
  });
}

/// "2:14", of a byte of the text, from 1.
std::string lineAndColumn(llvm::StringRef text, size_t byte) {
  const llvm::StringRef before = text.take_front(byte == 0 ? 0 : byte - 1);
  const size_t line = before.count('\n') + 1;
  const size_t lastBreak = before.rfind('\n');
  const size_t column =
      before.size() - (lastBreak == llvm::StringRef::npos ? 0 : lastBreak + 1) + 1;
  return fmt::format("{}:{}", line, column);
}

Result<Json> parseJson(llvm::StringRef text, llvm::StringRef name) {
  auto refuse = [&](const std::string &place, const char *got) {
    return badInput("{}{}: expected a flight record, got {}", name.str(), place, got);
  };
  bool isTooDeep = false;
  auto watch = [&](int depth, Json::parse_event_t, Json &) {
    isTooDeep |= depth > kDeepest;
    return !isTooDeep;
  };
  try {
    Json json = Json::parse(text.begin(), text.end(), watch);
    if (!isTooDeep)
      return json;
  } catch (const Json::parse_error &error) {
    if (!isTooDeep)
      return refuse(":" + lineAndColumn(text, error.byte), "text that is not JSON");
  } catch (const Json::exception &) { // a number that fits nowhere
    return refuse("", "a number out of range");
  }
  return refuse("", "JSON that nests too deeply");
}

} // namespace

std::string flightRecordName(int64_t rank) { return fmt::format("rank{}.json", rank); }

const FlightCommand *FlightRecord::find(uint32_t command) const {
  auto found = std::lower_bound(
      commands.begin(), commands.end(), command,
      [](const FlightCommand &each, uint32_t index) { return each.index < index; });
  return found != commands.end() && found->index == command ? &*found : nullptr;
}

std::string FlightRecord::encode() const {
  Writer writer;
  writer.member(kVersionKey, kFlightRecordVersion);
  writer.member("job", job);
  writer.member("rank", rank);
  writer.member("ranks", ranks);
  writer.member("program", program);
  writer.member("source", source);
  writer.member("fingerprint", fmt::format("{:016x}", fingerprint));
  writer.member("cause", causeJson(cause));
  writer.member("committed", committed);
  writer.member("recorded_ns", recordedNs);
  writer.member("state", kStates[static_cast<size_t>(state.state)]);
  writer.member("activity", kActivities[static_cast<size_t>(state.activity)]);
  writer.member("activity_since_ns", state.activitySinceNs);
  writer.member("heartbeat_ns", state.heartbeatNs);
  writer.member("issued", state.issued);
  writer.member("runs", state.runs);
  writer.list("streams", streams);
  writer.list("nodes", nodes);
  writer.list("commands", commands);
  writer.list("queues", state.queues);
  writer.list("flight", flight);
  return writer.take();
}

Result<FlightRecord> FlightRecord::decode(llvm::StringRef text, llvm::StringRef name) {
  Json json = BRAID_TRY(parseJson(text, name));
  Reader reader(name);
  if (!json.is_object() || !json.contains(kVersionKey)) {
    reader.fail("expected a flight record, got other JSON");
    return reader.status();
  }
  const uint32_t version = reader.number<uint32_t>(json, "", kVersionKey);
  if (version != kFlightRecordVersion)
    reader.fail(
        fmt::format("expected a record of version {}, got {}", kFlightRecordVersion, version));
  FlightRecord record;
  if (reader.status().isOk())
    readHead(reader, json, record);
  if (reader.status().isOk())
    readLists(reader, json, record);
  if (!reader.status().isOk())
    return reader.status();
  return record;
}

} // namespace braid
