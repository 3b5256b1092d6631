//===- runtime/job/flight_record.cpp - what the ranks of a failed job were doing --------------===//

#include "runtime/job/flight_record.h"

#include "ir/counted.h"
#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/files.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include <sys/stat.h>
#include <unistd.h>

namespace braid {

namespace {

constexpr std::string_view kFirstWords = "flight records of ";
constexpr size_t kLongestLine = 1000;
constexpr size_t kMostBytes = 256 << 20;

std::string headText(const JobMemory &memory, llvm::ArrayRef<Plan> plans, const std::string &job) {
  const std::string program = plans.empty()
                                  ? "program: none yet"
                                  : fmt::format("program @{} in {}", printable(plans[0].program),
                                                printable(plans[0].sourceName));
  return fmt::format("{}{} of job {}\n{}\nresults were committed {}\n", kFirstWords,
                     counted(memory.ranks(), "rank"), printable(job), program,
                     counted(memory.committed(), "time"));
}

std::string causeText(const JobMemory &memory) {
  const std::optional<JobCause> cause = memory.cause();
  if (!cause)
    return "none; the job was not aborted\n";
  std::string text = fmt::format("exit code {}", static_cast<int>(cause->status.code()));
  if (cause->rank >= 0)
    text += fmt::format(", caused by rank {}", cause->rank);
  for (llvm::StringRef line : llvm::split(cause->status.message(), "\n"))
    text += "\n  " + printable(line, kLongestLine);
  return text + "\n";
}

std::string ranksText(const JobMemory &memory, llvm::ArrayRef<Plan> plans) {
  const KnownPlans known(plans);
  const JobView view(memory, known);
  std::vector<std::pair<double, std::string>> lines; // completed runs (or commands) and text
  for (int64_t rank = 0; rank < memory.ranks(); ++rank) {
    const RankSlot &slot = memory.slot(rank);
    const Plan *plan = plans.empty() ? nullptr : known.find(rank, plans[0].firstCommand);
    const uint64_t completed = slot.completed();
    const std::string counts =
        fmt::format("{}/{}", completed, slot.issued.load(std::memory_order_relaxed));
    lines.emplace_back(
        static_cast<double>(completed) / (plan ? static_cast<double>(plan->commands.size()) : 1),
        fmt::format("{:>13}  {}\n", counts, printable(view.rankText(rank), kLongestLine)));
  }
  llvm::stable_sort(lines, llvm::less_first());
  return llvm::join(llvm::make_second_range(lines), "");
}

Status cannotWrite(const std::string &path) {
  return unsupported("cannot write '{}': {}", path, std::strerror(errno));
}

} // namespace

std::string flightRecords(const JobMemory &memory, llvm::ArrayRef<Plan> plans,
                          const std::string &job) {
  return fmt::format("{}\nfirst cause: {}\ncompleted/issued commands over all runs, and what each "
                     "rank was doing; slowest first\n{}",
                     headText(memory, plans, job), causeText(memory), ranksText(memory, plans));
}

Result<std::string> writeFlightRecords(const std::string &directory, const JobMemory &memory,
                                       llvm::ArrayRef<Plan> plans, const std::string &job) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return cannotWrite(directory);
  std::string path = fmt::format("{}/host{}.txt", directory, memory.host());
  BRAID_TRY(replaceFile(path, flightRecords(memory, plans, job), 0600));
  return path;
}

Status checkRecordsFolder(const std::string &directory) {
  if (access((directory + "/.").c_str(), W_OK | X_OK) == 0)
    return Status::ok();
  return errno == ENOENT ? checkWritable(llvm::StringRef(directory).rtrim('/').str())
                         : cannotWrite(directory);
}

Result<std::vector<std::string>> readFlightRecords(const std::string &file) {
  const std::string text = BRAID_TRY(readFile(file, kMostBytes));
  if (!text.starts_with(kFirstWords))
    return badInput("{}: this file contains no flight records", file);
  std::vector<std::string> lines;
  for (llvm::StringRef line : llvm::split(llvm::StringRef(text).rtrim('\n'), "\n"))
    lines.push_back(printable(line, 2 * kLongestLine)); // escapes and counts lengthen the lines
  return lines;
}

} // namespace braid
