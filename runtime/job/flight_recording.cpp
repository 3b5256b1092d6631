//===- runtime/job/flight_recording.cpp - records from the job memory, into files -------------===//

#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/job/flight_record.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace braid {

namespace {

/// So many commands of a Plan are written down, beside those of the ring.
constexpr uint32_t kMostCommands = 2048;
/// So many of them lie before the place where the slowest rank is.
constexpr uint32_t kBefore = 512;

/// A worker that gave up its command when the job was aborted says no more what it was in; the ring
/// does.
void restoreCurrent(FlightRecord &record, const Plan *plan) {
  for (const FlightSnapshot &entry : record.flight) {
    if (entry.queue >= record.state.queues.size())
      continue;
    QueueSnapshot &queue = record.state.queues[entry.queue];
    const bool isOver =
        entry.endNs != 0 || (queue.lastDone && hasReached(*queue.lastDone, entry.id));
    if (isOver || queue.current)
      continue;
    const Command *command = commandOf(plan, entry.id);
    queue.current = entry.id;
    queue.sinceNs = entry.beginNs;
    queue.isWaiting =
        command && (command->kind == CommandKind::Await || command->kind == CommandKind::WaitEvent);
    queue.flagValue = entry.flagValue;
    queue.wantedValue = command && command->kind == CommandKind::Await ? entry.id.run : 0;
  }
}

/// Others are of programs that were tried, and have no names here.
void keepOwn(FlightRecord &record, const Plan &plan) {
  auto isOther = [&](CommandId id) { return !commandOf(&plan, id); };
  llvm::erase_if(record.flight, [&](const FlightSnapshot &entry) { return isOther(entry.id); });
  for (QueueSnapshot &queue : record.state.queues)
    for (std::optional<CommandId> *id : {&queue.current, &queue.lastDone})
      if (*id && isOther(**id))
        id->reset();
}

/// The commands that the record mentions.
std::set<uint32_t> mentioned(const FlightRecord &record) {
  std::set<uint32_t> commands;
  for (const FlightSnapshot &entry : record.flight)
    commands.insert(entry.id.command);
  for (const QueueSnapshot &queue : record.state.queues)
    for (const std::optional<CommandId> &id : {queue.current, queue.lastDone})
      if (id)
        commands.insert(id->command);
  return commands;
}

/// Where a rank is: the latest command that one of its queues is in or has completed.
CommandId frontier(const RankSnapshot &rank) {
  CommandId latest;
  for (const QueueSnapshot &queue : rank.queues)
    for (const std::optional<CommandId> &id : {queue.lastDone, queue.current})
      if (id && (latest.run == 0 || hasReached(*id, latest)))
        latest = *id;
  return latest;
}

/// The command where the slowest rank is: there the ranks differ first.
uint32_t slowest(const JobMemory &memory) {
  std::optional<CommandId> least;
  for (int64_t rank = 0; rank < memory.ranks(); ++rank) {
    const CommandId at = frontier(snapshotOf(memory.slot(rank)));
    if (!least || hasReached(*least, at))
      least = at;
  }
  return least->command;
}

class PlanWriter {
public:
  PlanWriter(const Plan &plan, FlightRecord &record) : plan_(plan), record_(record) {}

  void write(const JobMemory &memory) {
    record_.program = plan_.program;
    record_.source = plan_.sourceName;
    record_.fingerprint = plan_.fingerprint;
    record_.streams = plan_.streams;
    const auto count = static_cast<uint32_t>(plan_.commands.size());
    std::set<uint32_t> commands = mentioned(record_);
    uint32_t first = 0;
    if (count > kMostCommands) {
      const uint32_t at = slowest(memory);
      first = std::min(at - std::min(at, kBefore), count - kMostCommands);
    }
    for (uint32_t i = first; i < count && i - first < kMostCommands; ++i)
      commands.insert(i);
    for (uint32_t index : commands)
      if (index < count)
        record_.commands.push_back(command(index));
  }

private:
  FlightCommand command(uint32_t index) {
    const Command &command = plan_.commands[index];
    FlightCommand copy{index, name(command.kind).str(), command.stream, kNone, {}, -1};
    if (command.endpoint < plan_.endpoints.size())
      copy.peer = plan_.endpoints[command.endpoint].peer;
    if (command.origin >= plan_.origins.size())
      return copy;
    const Origin &origin = plan_.origins[command.origin];
    copy.node = node(origin.site, command.origin);
    const auto trips = plan_.trips.begin() + origin.firstTrip;
    copy.trips.assign(trips, trips + origin.tripCount);
    return copy;
  }

  uint32_t node(uint32_t site, uint32_t origin) {
    auto [known, isNew] = nodes_.try_emplace(site, static_cast<uint32_t>(record_.nodes.size()));
    if (isNew)
      record_.nodes.push_back({plan_.sites[site].text, place(plan_, origin)});
    return known->second;
  }

  const Plan &plan_;
  FlightRecord &record_;
  std::map<uint32_t, uint32_t> nodes_; ///< by site
};

/// Records of all hosts are read side by side. A time of 0 means none.
void toCommonClock(FlightRecord &record, int64_t offsetNs) {
  auto shift = [offsetNs](uint64_t &ns) { ns += ns == 0 ? 0 : static_cast<uint64_t>(offsetNs); };
  shift(record.recordedNs);
  shift(record.state.activitySinceNs);
  shift(record.state.heartbeatNs);
  for (QueueSnapshot &queue : record.state.queues)
    shift(queue.sinceNs);
  for (FlightSnapshot &entry : record.flight) {
    shift(entry.beginNs);
    shift(entry.endNs);
  }
}

Status cannotWrite(const std::string &path) {
  return unsupported("cannot write '{}': {}", path, std::strerror(errno));
}

/// Whoever owns a folder, or may write to it, can take away what is in it or put something else in
/// its place. In one with the sticky bit others cannot.
Status checkOwner(const FileDescriptor &folder, const std::string &path) {
  struct stat about = {};
  if (fstat(folder.get(), &about) != 0)
    return cannotWrite(path);
  const bool isForAll = (about.st_mode & S_IWOTH) && !(about.st_mode & S_ISVTX);
  if (about.st_uid == geteuid() && !isForAll)
    return Status::ok();
  return unsupported("cannot write '{}': expected a folder of this user's that not everybody may "
                     "write to",
                     path);
}

std::string pathOf(const FileDescriptor &folder) {
  return fmt::format("/proc/self/fd/{}", folder.get());
}

/// Records that a larger job has left in this folder do not go with those of one with `ranks`.
void removeHigher(const FileDescriptor &folder, int64_t ranks) {
  std::vector<std::string> higher;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator at(pathOf(folder), error), end; !error && at != end;
       at.increment(error)) {
    const llvm::StringRef name = llvm::sys::path::filename(at->path());
    llvm::StringRef digits = name;
    int64_t rank = 0;
    if (digits.consume_front("rank") && digits.consume_back(".json") &&
        !digits.getAsInteger(10, rank) && rank >= ranks && name == flightRecordName(rank))
      higher.push_back(name.str());
  }
  for (const std::string &name : higher)
    unlinkat(folder.get(), name.c_str(), 0);
}

} // namespace

FlightRecord recordOf(const JobMemory &memory, llvm::ArrayRef<Plan> plans, int64_t rank,
                      const std::string &job) {
  FlightRecord record;
  record.job = job;
  record.rank = rank;
  record.ranks = memory.ranks();
  if (std::optional<JobCause> cause = memory.cause())
    record.cause = {cause->status.code(),
                    cause->rank >= 0 && cause->rank < record.ranks ? cause->rank : -1,
                    cause->status.message()};
  record.committed = memory.committed();
  record.recordedNs = monotonicNs();
  record.state = snapshotOf(memory.slot(rank));
  record.flight = flightOf(memory.slot(rank));
  const Plan *plan = llvm::find_if(plans, [&](const Plan &each) { return each.rank == rank; });
  plan = plan == plans.end() ? nullptr : plan;
  if (plan)
    keepOwn(record, *plan);
  if (record.cause)
    restoreCurrent(record, plan);
  if (plan)
    PlanWriter(*plan, record).write(memory);
  toCommonClock(record, memory.network().clockOffsetNs);
  return record;
}

Status writeFlightRecords(const std::string &directory, const JobMemory &memory,
                          llvm::ArrayRef<Plan> plans, llvm::ArrayRef<int64_t> ranks,
                          const std::string &job) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return cannotWrite(directory);
  FileDescriptor folder(open(directory.c_str(), O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.isValid())
    return cannotWrite(directory);
  BRAID_TRY(checkOwner(folder, directory));
  removeHigher(folder, memory.ranks());
  Status first;
  for (int64_t rank : ranks) {
    // In this very folder, whatever its name may lead to by now.
    const std::string name = flightRecordName(rank);
    Status status =
        replaceFile(pathOf(folder) + "/" + name, recordOf(memory, plans, rank, job).encode(),
                    {.mode = 0600, .shownAs = directory + "/" + name});
    if (first.isOk())
      first = status;
  }
  return first;
}

Status checkRecordsFolder(const std::string &directory) {
  const FileDescriptor folder(open(directory.c_str(), O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.isValid() && access(directory.c_str(), W_OK | X_OK) != 0)
    return cannotWrite(directory);
  if (folder.isValid())
    return checkOwner(folder, directory);
  if (errno != ENOENT)
    return cannotWrite(directory);
  return checkWritable(llvm::StringRef(directory).rtrim('/').str());
}

} // namespace braid
