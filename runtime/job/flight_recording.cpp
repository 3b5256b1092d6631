//===- runtime/job/flight_recording.cpp - writes records of the job memory to files -----------===//

#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/job/flight_record.h"
#include "runtime/job/job_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstring>
#include <map>

#include <sys/stat.h>
#include <unistd.h>

namespace braid {

/// Returns nullopt if the Plan does not contain the command, which may belong to another program
/// that was tried.
static std::optional<RecordedCommand> commandIn(const Plan *plan, CommandId id) {
  const Command *command = commandOf(plan, id);
  if (!command)
    return std::nullopt;
  RecordedCommand named;
  named.kind = name(command->kind).str();
  named.stream = plan->streams[command->stream];
  named.run = id.run;
  if (command->endpoint < plan->endpoints.size())
    named.peer = plan->endpoints[command->endpoint].peer;
  if (command->origin >= plan->origins.size())
    return named;
  const Origin &origin = plan->origins[command->origin];
  named.text = plan->sites[origin.site].text;
  named.place = place(*plan, command->origin);
  const auto trips = plan->trips.begin() + origin.firstTrip;
  named.trips = fmt::format("{}", fmt::join(trips, trips + origin.tripCount, ", "));
  return named;
}

/// Returns the last commands of a rank that started, by sequence number. Skips an entry of the ring
/// that is being overwritten: its writer clears the sequence number before it changes the other
/// fields, and the acquire loads order the second read of the number after the reads of those
/// fields.
static std::map<uint64_t, RecordedCommand> flightOf(const RankSlot &slot, const JobView &view,
                                                    int64_t rank) {
  constexpr auto kAcquire = std::memory_order_acquire;
  std::map<uint64_t, RecordedCommand> flight;
  for (const FlightEntry &entry : slot.flight) {
    const uint64_t sequence = entry.sequence.load(kAcquire);
    const std::optional<CommandId> id = CommandId::unpack(entry.command.load(kAcquire));
    const uint64_t beginNs = entry.beginNs.load(kAcquire), endNs = entry.endNs.load(kAcquire);
    if (sequence == 0 || !id || entry.sequence.load(std::memory_order_relaxed) != sequence)
      continue;
    if (std::optional<RecordedCommand> command = commandIn(view.plan(rank, *id), *id)) {
      command->beginNs = static_cast<int64_t>(beginNs);
      command->endNs = static_cast<int64_t>(endNs);
      flight[sequence] = std::move(*command);
    }
  }
  return flight;
}

static RankRecord recordOf(const JobMemory &memory, const JobView &view, int64_t rank) {
  const RankSlot &slot = memory.slot(rank);
  RankRecord record;
  record.doing = view.rankText(rank);
  record.issued = static_cast<int64_t>(slot.issued.load(std::memory_order_relaxed));
  record.completed = static_cast<int64_t>(slot.completed());
  if (const QueueView *queue = view.leadingQueue(rank)) {
    const Plan *plan = view.plan(rank, *queue->current);
    record.current = commandIn(plan, *queue->current).value_or(RecordedCommand());
    record.current.beginNs = static_cast<int64_t>(queue->sinceNs);
  }
  for (auto &[sequence, command] : flightOf(slot, view, rank))
    record.flight.push_back(command);
  auto moveToJobClock = [&](int64_t &ns) { ns += ns == 0 ? 0 : memory.network().clockOffsetNs; };
  moveToJobClock(record.current.beginNs);
  for (RecordedCommand &command : record.flight) {
    moveToJobClock(command.beginNs);
    moveToJobClock(command.endNs);
  }
  return record;
}

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
  for (int64_t rank = 0; rank < memory.ranks(); ++rank)
    records.ranks.push_back(recordOf(memory, view, rank));
  for (const Plan &plan : plans)
    records.ranks[static_cast<size_t>(plan.rank)].commands =
        static_cast<int64_t>(plan.commands.size());
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
