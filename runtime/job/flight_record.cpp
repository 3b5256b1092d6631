//===- runtime/job/flight_record.cpp - what the ranks of a failed job were doing --------------===//

#include "runtime/job/flight_record.h"

#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/json.h"

#include "llvm/Support/FormatVariadic.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include <sys/stat.h>
#include <unistd.h>

namespace braid {

FlightRecords recordsOf(const JobMemory &memory, llvm::ArrayRef<Plan> plans,
                        const std::string &job) {
  const KnownPlans known(plans);
  const JobView view(memory, known);
  FlightRecords records;
  records.job = job;
  records.committed = memory.committed();
  if (!plans.empty()) {
    records.program = plans.front().program;
    records.source = plans.front().sourceName;
    records.fingerprint = fmt::format("{:016x}", plans.front().fingerprint);
  }
  if (const std::optional<JobCause> cause = memory.cause())
    records.cause = {static_cast<int64_t>(cause->status.code()), cause->rank,
                     cause->status.message()};
  for (int64_t rank = 0; rank < memory.ranks(); ++rank) {
    const RankSlot &slot = memory.slot(rank);
    records.ranks.push_back(
        {.doing = view.rankText(rank),
         .issued = static_cast<int64_t>(slot.issued.load(std::memory_order_relaxed)),
         .completed = static_cast<int64_t>(slot.completed())});
  }
  for (const Plan &plan : plans)
    records.ranks[static_cast<size_t>(plan.rank)].commands =
        static_cast<int64_t>(plan.commands.size());
  return records;
}

// -- JSON. LLVM finds these overloads by argument-dependent lookup. --

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

// -- Files. --

static Status cannotWrite(const std::string &path) {
  return unsupported("cannot write '{}': {}", path, std::strerror(errno));
}

Result<std::string> writeFlightRecords(const std::string &directory, const JobMemory &memory,
                                       llvm::ArrayRef<Plan> plans, const std::string &job) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return cannotWrite(directory);
  std::string path = fmt::format("{}/host{}.json", directory, memory.host());
  BRAID_TRY(replaceFile(path, recordsOf(memory, plans, job).encode(), {.mode = 0600}));
  return path;
}

Status checkRecordsFolder(const std::string &directory) {
  if (access((directory + "/.").c_str(), W_OK | X_OK) == 0)
    return Status::ok();
  return errno == ENOENT ? checkWritable(llvm::StringRef(directory).rtrim('/').str())
                         : cannotWrite(directory);
}

} // namespace braid
