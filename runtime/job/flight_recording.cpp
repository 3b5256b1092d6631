//===- runtime/job/flight_recording.cpp - makes flight records and writes them ----------------===//

#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/job/flight_record.h"

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

static Status cannotWrite(const std::string &path) {
  return unsupported("cannot write '{}': {}", path, std::strerror(errno));
}

Result<std::string> writeFlightRecords(const std::string &directory, const JobMemory &memory,
                                       llvm::ArrayRef<Plan> plans, const std::string &job) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return cannotWrite(directory);
  std::string path = fmt::format("{}/host{}.json", directory, memory.host());
  BRAID_TRY(replaceFile(path, recordsOf(memory, plans, job).encode(), 0600));
  return path;
}

Status checkRecordsFolder(const std::string &directory) {
  if (access((directory + "/.").c_str(), W_OK | X_OK) == 0)
    return Status::ok();
  return errno == ENOENT ? checkWritable(llvm::StringRef(directory).rtrim('/').str())
                         : cannotWrite(directory);
}

} // namespace braid
