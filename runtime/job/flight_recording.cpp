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

static void addCommands(FlightRecord &record, const JobView &view, int64_t clockOffsetNs) {
  auto onJobClock = [&](uint64_t ns) {
    return ns == 0 ? 0 : static_cast<int64_t>(ns) + clockOffsetNs;
  };
  if (const QueueSnapshot *queue = view.leadingQueue(record.rank)) {
    const Plan *plan = view.plan(record.rank, *queue->current);
    record.current = commandIn(plan, *queue->current).value_or(RecordedCommand());
    record.current.beginNs = onJobClock(queue->sinceNs);
  }
  for (const FlightSnapshot &entry : view.at(record.rank).flight)
    if (auto command = commandIn(view.plan(record.rank, entry.id), entry.id)) {
      command->beginNs = onJobClock(entry.beginNs);
      command->endNs = onJobClock(entry.endNs);
      record.flight.push_back(std::move(*command));
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
  record.issued = static_cast<int64_t>(view.at(rank).issued);
  record.completed = static_cast<int64_t>(view.at(rank).completed);
  addCommands(record, view, memory.network().clockOffsetNs);
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
    Status status = replaceFile(directory + "/" + flightRecordName(rank),
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
