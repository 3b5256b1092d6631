//===- runtime/job/flight_record.cpp - records as text ----------------------------------------===//

#include "runtime/job/flight_record.h"

#include "ir/failure.h"
#include "runtime/json_mistake.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

namespace braid {

namespace {

using Json = nlohmann::ordered_json;

// By the values of HostActivity.
constexpr const char *kActivities[] = {"own code", "preparing", "all-gather", "synchronize",
                                       "commit"};
constexpr const char *kVersionKey = "braid_flight_record";
constexpr uint64_t kMostRanks = 1 << 16;
constexpr int kDeepest = 8; ///< no record nests more deeply

// -- What a record holds: once for both directions. An `io` writes each field, or reads it. --

template <class Io> void fields(Io &io, typename Io::template Of<CommandId> &id) {
  io("run", id.run);
  io("command", id.command);
}

template <class Io> void fields(Io &io, typename Io::template Of<FlightCause> &cause) {
  io.code("code", cause.code);
  io.rankOrNone("rank", cause.rank);
  io("text", cause.text);
}

template <class Io> void fields(Io &io, typename Io::template Of<FlightNode> &node) {
  io("text", node.text);
  io("place", node.place);
}

template <class Io> void fields(Io &io, typename Io::template Of<FlightCommand> &command) {
  io("index", command.index);
  io("kind", command.kind);
  io("stream", command.stream);
  if (io.has("node", command.node != kNone))
    io("node", command.node);
  if (io.has("trips", !command.trips.empty()))
    io("trips", command.trips);
  if (io.has("peer", command.peer >= 0))
    io.rankOrNone("peer", command.peer);
}

template <class Io> void fields(Io &io, typename Io::template Of<QueueSnapshot> &queue) {
  io("completed", queue.completed);
  io("current", queue.current);
  io("since_ns", queue.sinceNs);
  io("waiting", queue.isWaiting);
  io("flag", queue.flagValue);
  io("wanted", queue.wantedValue);
  io("last_done", queue.lastDone);
}

template <class Io> void fields(Io &io, typename Io::template Of<FlightSnapshot> &entry) {
  io("sequence", entry.sequence);
  fields(io, entry.id);
  io("queue", entry.queue);
  io("begin_ns", entry.beginNs);
  io("end_ns", entry.endNs);
  io("flag", entry.flagValue);
}

template <class Io> void fields(Io &io, typename Io::template Of<FlightRecord> &record) {
  constexpr size_t kMost = 1 << 20;
  io("job", record.job);
  io.place(record.rank, record.ranks);
  io("program", record.program);
  io("source", record.source);
  io.hexadecimal("fingerprint", record.fingerprint);
  io("cause", record.cause);
  io("committed", record.committed);
  io("recorded_ns", record.recordedNs);
  io.choice("state", record.state.state, kStateNames);
  io.choice("activity", record.state.activity, kActivities);
  io("activity_since_ns", record.state.activitySinceNs);
  io("heartbeat_ns", record.state.heartbeatNs);
  io("issued", record.state.issued);
  io("runs", record.state.runs);
  io.list("streams", record.streams, kMost);
  io.list("nodes", record.nodes, kMost);
  io.list("commands", record.commands, kMost);
  io.list("queues", record.state.queues, kQueueSlots);
  io.list("flight", record.flight, kFlightEntries);
}

// -- Out. --

class Writer {
public:
  template <class T> using Of = const T;

  const Json &json() const { return json_; }

  template <class T> void operator()(const char *key, const T &value) {
    json_[key] = jsonOf(value);
  }
  bool has(const char *, bool isWritten) const { return isWritten; }
  void code(const char *key, StatusCode value) { json_[key] = static_cast<int>(value); }
  void rankOrNone(const char *key, int64_t rank) { json_[key] = rank; }
  void place(int64_t rank, int64_t ranks) {
    json_["rank"] = rank;
    json_["ranks"] = ranks;
  }
  void hexadecimal(const char *key, uint64_t value) { json_[key] = fmt::format("{:016x}", value); }
  template <class Enum, size_t N>
  void choice(const char *key, Enum value, const char *const (&names)[N]) {
    json_[key] = names[static_cast<size_t>(value)];
  }
  template <class T> void list(const char *key, const std::vector<T> &values, size_t) {
    json_[key] = Json::array();
    for (const T &value : values)
      json_[key].push_back(jsonOf(value));
  }

private:
  template <class T> static Json jsonOf(const std::optional<T> &value) {
    return value ? jsonOf(*value) : Json();
  }
  template <class T> static Json jsonOf(const T &value) {
    if constexpr (std::is_constructible_v<Json, T>) {
      return value;
    } else {
      Writer inner;
      fields(inner, value);
      return inner.json();
    }
  }

  Json json_ = Json::object();
};

/// One member a line, and one element a line of a list.
std::string textOf(const Json &record) {
  auto dump = [](const Json &value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string text;
  for (const auto &[key, value] : record.items()) {
    text += fmt::format("{}\n  \"{}\": ", text.empty() ? "{" : ",", key);
    if (!value.is_array()) {
      text += dump(value);
      continue;
    }
    text += '[';
    for (const Json &element : value)
      text += (&element == &value.front() ? "\n    " : ",\n    ") + dump(element);
    text += value.empty() ? "]" : "\n  ]";
  }
  return text + "\n}\n";
}

// -- In. --

/// The first thing that is wrong with a record.
class Mistake {
public:
  explicit Mistake(llvm::StringRef name) : name_(name.str()) {}

  const Status &status() const { return status_; }

  void fail(const std::string &message) {
    if (status_.isOk())
      status_ = badInput("{}: {}", name_, message);
  }

  void expected(const std::string &what, const std::string &path, const Json &got) {
    fail(fmt::format("expected {} to be {}, got {}", path, what, jsonGot(got)));
  }

private:
  std::string name_;
  Status status_;
};

/// Reads the members of one object.
class Reader {
public:
  template <class T> using Of = T;

  /// `ranks` are those of the job, as far as they are known.
  Reader(Mistake &mistake, const Json &object, std::string path = "", int64_t ranks = 0)
      : mistake_(mistake), object_(object), path_(std::move(path)), ranks_(ranks) {}

  template <class T> void operator()(const char *key, T &field) {
    read(member(key), at(key), field);
  }
  bool has(const char *key, bool) const { return object_.contains(key); }

  void code(const char *key, StatusCode &field) {
    const uint64_t code = number(member(key), at(key), std::numeric_limits<int>::max());
    if (std::optional<StatusCode> failure = failureOfCode(static_cast<int64_t>(code)))
      field = *failure;
    else
      mistake_.expected("an exit code of a failure", at(key), code);
  }

  /// A rank, or -1.
  void rankOrNone(const char *key, int64_t &field) {
    const Json &value = member(key);
    const std::optional<int64_t> rank = signedNumber(value);
    if (rank && *rank >= -1 && *rank < ranks_)
      field = *rank;
    else
      mistake_.expected(fmt::format("a rank below {}, or -1", ranks_), at(key), value);
  }

  void place(int64_t &rank, int64_t &ranks) {
    ranks = static_cast<int64_t>(number(member("ranks"), at("ranks"), kMostRanks));
    if (ranks < 1)
      return mistake_.fail("expected ranks to be at least 1, got 0");
    ranks_ = ranks;
    rank =
        static_cast<int64_t>(number(member("rank"), at("rank"), static_cast<uint64_t>(ranks) - 1));
  }

  void hexadecimal(const char *key, uint64_t &field) {
    std::string digits;
    (*this)(key, digits);
    if (digits.size() != 16 || llvm::StringRef(digits).getAsInteger(16, field))
      mistake_.expected("16 hexadecimal digits", at(key), Json(digits));
  }

  template <class Enum, size_t N>
  void choice(const char *key, Enum &field, const char *const (&names)[N]) {
    std::string got;
    (*this)(key, got);
    auto found = llvm::find(names, got);
    if (found == std::end(names))
      return mistake_.expected(fmt::format("one of {}", fmt::join(names, ", ")), key, Json(got));
    field = static_cast<Enum>(found - std::begin(names));
  }

  template <class T> void list(const char *key, std::vector<T> &into, size_t most) {
    const Json &values = member(key);
    if (!values.is_array() || values.size() > most)
      return mistake_.expected(fmt::format("a list of at most {} elements", most), key, values);
    for (size_t i = 0; i < values.size() && mistake_.status().isOk(); ++i)
      read(values[i], fmt::format("{}[{}]", key, i), into.emplace_back());
  }

private:
  /// The member, or a null that has been complained about.
  const Json &member(const char *key) {
    static const Json kNull;
    if (auto found = object_.find(key); found != object_.end())
      return *found;
    mistake_.fail(fmt::format("expected {}, got nothing", at(key)));
    return kNull;
  }
  std::string at(const char *key) const { return path_.empty() ? key : path_ + "." + key; }

  /// Nothing if it has more than 63 bits: JSON would give the low 64 as if they had a sign.
  static std::optional<int64_t> signedNumber(const Json &value) {
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    const bool isTooLarge = value.is_number_unsigned() && value.get<uint64_t>() > kMost;
    if (!value.is_number_integer() || isTooLarge)
      return std::nullopt;
    return value.get<int64_t>();
  }

  uint64_t number(const Json &value, const std::string &path, uint64_t most) {
    if (value.is_number_unsigned() && value.get<uint64_t>() <= most)
      return value.get<uint64_t>();
    mistake_.expected(fmt::format("a whole number up to {}", most), path, value);
    return 0;
  }

  void read(const Json &value, const std::string &path, uint32_t &field) {
    field = static_cast<uint32_t>(number(value, path, std::numeric_limits<uint32_t>::max()));
  }
  void read(const Json &value, const std::string &path, uint64_t &field) {
    field = number(value, path, std::numeric_limits<uint64_t>::max());
  }
  void read(const Json &value, const std::string &path, bool &field) {
    if (!value.is_boolean())
      return mistake_.expected("true or false", path, value);
    field = value.get<bool>();
  }
  void read(const Json &value, const std::string &path, std::string &field) {
    if (!value.is_string())
      return mistake_.expected("a text", path, value);
    field = value.get<std::string>();
  }
  /// Whole numbers of 64 bits, of either sign.
  void read(const Json &value, const std::string &path, std::vector<int64_t> &field) {
    if (!value.is_array())
      mistake_.expected("a list", path, value);
    for (const Json &number : value)
      if (std::optional<int64_t> signedOne = signedNumber(number))
        field.push_back(*signedOne);
      else
        mistake_.expected("whole numbers of 64 bits", path, number);
  }
  template <class T>
  void read(const Json &value, const std::string &path, std::optional<T> &field) {
    if (!value.is_null())
      read(value, path, field.emplace());
  }
  template <class T> void read(const Json &value, const std::string &path, T &field) {
    if (!value.is_object())
      return mistake_.expected("an object", path, value);
    Reader inner(mistake_, value, path, ranks_);
    fields(inner, field);
  }

  Mistake &mistake_;
  const Json &object_;
  const std::string path_;
  int64_t ranks_;
};

/// What decode() accepts, beside what each field says by itself.
void checkLists(const FlightRecord &record, Mistake &mistake) {
  for (size_t i = 0; i < record.commands.size(); ++i) {
    const FlightCommand &command = record.commands[i];
    if (command.node != kNone && command.node >= record.nodes.size())
      mistake.fail(fmt::format("expected commands[{}].node to be below {}, got {}", i,
                               record.nodes.size(), command.node));
    if (command.stream >= record.streams.size())
      mistake.fail(fmt::format("expected commands[{}].stream to be below {}, got {}", i,
                               record.streams.size(), command.stream));
    if (i > 0 && record.commands[i - 1].index >= command.index)
      mistake.fail(fmt::format("expected commands[{}].index to be above {}, got {}", i,
                               record.commands[i - 1].index, command.index));
  }
  uint64_t last = 0;
  for (size_t i = 0; i < record.flight.size(); last = record.flight[i++].sequence)
    if (record.flight[i].sequence <= last)
      mistake.fail(fmt::format("expected flight[{}].sequence to be above {}, got {}", i, last,
                               record.flight[i].sequence));
}

Result<Json> parseJson(llvm::StringRef text, llvm::StringRef name) {
  auto refuse = [&](const std::string &place, const char *got) {
    return badInput("{}{}: expected a flight record, got {}", name.str(), place, got);
  };
  if (nestsTooDeeplyAt(text, kDeepest) != llvm::StringRef::npos)
    return refuse("", "JSON that nests too deeply");
  std::string copy;
  text = withoutEnds(text, copy);
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error &error) {
    return refuse(":" + lineAndColumn(text, error.byte), "text that is not JSON");
  } catch (const Json::exception &) { // a number that fits nowhere
    return refuse("", "a number out of range");
  }
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
  writer(kVersionKey, kFlightRecordVersion);
  fields(writer, *this);
  return textOf(writer.json());
}

Result<FlightRecord> FlightRecord::decode(llvm::StringRef text, llvm::StringRef name) {
  const Json json = BRAID_TRY(parseJson(text, name));
  if (!json.is_object() || !json.contains(kVersionKey))
    return badInput("{}: expected a flight record, got other JSON", name.str());
  Mistake mistake(name);
  Reader reader(mistake, json);
  uint32_t version = 0;
  reader(kVersionKey, version);
  if (version != kFlightRecordVersion)
    mistake.fail(
        fmt::format("expected a record of version {}, got {}", kFlightRecordVersion, version));
  FlightRecord record;
  if (mistake.status().isOk())
    fields(reader, record);
  if (mistake.status().isOk())
    checkLists(record, mistake);
  if (!mistake.status().isOk())
    return mistake.status();
  return record;
}

} // namespace braid
