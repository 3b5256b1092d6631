//===- runtime/job/flight_recording.cpp - records from the job memory, into files -------------===//

#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/job/flight_record.h"
#include "runtime/job/job_view.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstring>
#include <map>

#include <sys/stat.h>
#include <unistd.h>

namespace braid {

/// Nothing if the Plan has no such command: it is of another program, one that was tried.
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

/// The last commands of a rank that began, by their numbers. An entry of the ring that is being
/// used anew is left out: its writer clears the number before it changes anything else, and loads
/// that acquire keep the last look at the number after those at the other fields.
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

static void addCommands(FlightRecord &record, const JobView &view, const JobMemory &memory) {
  if (const QueueView *queue = view.leadingQueue(record.rank)) {
    const Plan *plan = view.plan(record.rank, *queue->current);
    record.current = commandIn(plan, *queue->current).value_or(RecordedCommand());
    record.current.beginNs = static_cast<int64_t>(queue->sinceNs);
  }
  for (auto &[sequence, command] : flightOf(memory.slot(record.rank), view, record.rank))
    record.flight.push_back(command);
  auto moveToJobClock = [&](int64_t &ns) { ns += ns == 0 ? 0 : memory.network().clockOffsetNs; };
  moveToJobClock(record.current.beginNs);
  for (RecordedCommand &command : record.flight) {
    moveToJobClock(command.beginNs);
    moveToJobClock(command.endNs);
  }
}

FlightRecord recordOf(const JobMemory &memory, llvm::ArrayRef<Plan> plans, int64_t rank,
                      const std::string &job) {
  const KnownPlans known(plans);
  const JobView view(memory, known);
  FlightRecord record;
  record.job = job;
  record.rank = rank;
  record.ranks = memory.ranks();
  if (const Plan *plan = known.find(rank, 0)) {
    record.program = plan->program;
    record.source = plan->sourceName;
    record.fingerprint = fmt::format("{:016x}", plan->fingerprint);
    record.commands = static_cast<int64_t>(plan->commands.size());
  }
  if (const std::optional<JobCause> cause = memory.cause())
    record.cause = {static_cast<int64_t>(cause->status.code()), cause->rank,
                    cause->status.message()};
  record.committed = memory.committed();
  record.doing = view.rankText(rank);
  const RankSlot &slot = memory.slot(rank);
  record.issued = static_cast<int64_t>(slot.issued.load(std::memory_order_relaxed));
  record.completed = static_cast<int64_t>(slot.completed());
  addCommands(record, view, memory);
  return record;
}

// -- Files. --

static Status cannotWrite(const std::string &path) {
  return unsupported("cannot write '{}': {}", path, std::strerror(errno));
}

/// Records that a larger job has left in this folder do not go with those of one with `ranks`.
static void removeHigher(const std::string &directory, int64_t ranks) {
  std::error_code error;
  for (llvm::sys::fs::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    llvm::StringRef digits = llvm::sys::path::filename(at->path());
    int64_t rank = 0;
    if (digits.consume_front("rank") && digits.consume_back(".json") &&
        !digits.getAsInteger(10, rank) && rank >= ranks)
      llvm::sys::fs::remove(at->path());
  }
}

Status writeFlightRecords(const std::string &directory, const JobMemory &memory,
                          llvm::ArrayRef<Plan> plans, llvm::ArrayRef<int64_t> ranks,
                          const std::string &job) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return cannotWrite(directory);
  removeHigher(directory, memory.ranks());
  Status first;
  for (int64_t rank : ranks) {
    Status status = replaceFile(fmt::format("{}/rank{}.json", directory, rank),
                                recordOf(memory, plans, rank, job).encode(), {.mode = 0600});
    if (first.isOk())
      first = status;
  }
  return first;
}

Status checkRecordsFolder(const std::string &directory) {
  if (access((directory + "/.").c_str(), W_OK | X_OK) == 0)
    return Status::ok();
  return errno == ENOENT ? checkWritable(llvm::StringRef(directory).rtrim('/').str())
                         : cannotWrite(directory);
}

} // namespace braid
