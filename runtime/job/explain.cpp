//===- runtime/job/explain.cpp - the records of a job's ranks side by side --------------------===//

#include "runtime/job/explain.h"

#include "ir/counted.h"
#include "ir/printable.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

namespace braid {

namespace {

constexpr size_t kLongestLine = 1000;

std::string causeText(const RecordedCause &cause) {
  if (cause.code == 0)
    return "none, the job was not aborted\n";
  std::string text = fmt::format("exit code {}", cause.code);
  if (cause.rank >= 0)
    text += fmt::format(", by rank {}", cause.rank);
  for (llvm::StringRef line : llvm::split(cause.text, "\n"))
    text += "\n  " + printable(line, kLongestLine);
  return text + "\n";
}

std::string headText(const FlightRecords &records) {
  const std::string program = records.program.empty()
                                  ? "program: none yet\n"
                                  : fmt::format("program @{} in {}\n", printable(records.program),
                                                printable(records.source));
  return fmt::format("job {}, {}\n{}results were committed {}\n", printable(records.job),
                     counted(static_cast<int64_t>(records.ranks.size()), "rank"), program,
                     counted(records.committed, "time"));
}

/// Returns the progress in runs, or in commands if the number of commands per run is unknown.
double progressOf(const RankRecord &record) {
  return static_cast<double>(record.completed) /
         static_cast<double>(std::max<int64_t>(record.commands, 1));
}

/// Returns the ranks that have completed the fewest runs, or the smallest part of a run. Returns
/// none if all ranks have made equal progress.
std::vector<int64_t> ranksBehind(const FlightRecords &records) {
  std::map<double, std::vector<int64_t>> byProgress;
  for (size_t rank = 0; rank < records.ranks.size(); ++rank)
    byProgress[progressOf(records.ranks[rank])].push_back(static_cast<int64_t>(rank));
  return byProgress.size() > 1 ? byProgress.begin()->second : std::vector<int64_t>();
}

/// Formats ordered ranks, for example "ranks 0-2, 5".
std::string rangesText(llvm::ArrayRef<int64_t> ranks) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1)
      ++last;
    ranges.push_back(last == i ? fmt::format("{}", ranks[i])
                               : fmt::format("{}-{}", ranks[i], ranks[last]));
    i = last + 1;
  }
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranges, ", "));
}

} // namespace

std::string explainRecords(const FlightRecords &records) {
  std::string text = headText(records) + "\nfirst cause: " + causeText(records.cause);
  text += "\ncommands completed of those issued, over all runs, and what each rank was in\n";
  for (const RankRecord &record : records.ranks)
    text += fmt::format("{:>13}  {}\n", fmt::format("{}/{}", record.completed, record.issued),
                        printable(record.doing, kLongestLine));
  const std::vector<int64_t> behind = ranksBehind(records);
  return text + fmt::format("\nfurthest behind: {}\n", behind.empty()
                                                           ? "none, all ranks have got equally far"
                                                           : rangesText(behind));
}

} // namespace braid
