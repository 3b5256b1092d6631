//===- runtime/job/explain.cpp - the records of a job's ranks side by side --------------------===//

#include "runtime/job/explain.h"

#include "ir/counted.h"
#include "ir/failure.h"
#include "ir/printable.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

namespace braid {

namespace {

constexpr size_t kLongestLine = 1000;

bool hasProgram(const FlightRecord &record) { return !record.program.empty(); }

/// The index of one that knows the job's program, if any does: some ranks may have died before.
size_t mostTelling(llvm::ArrayRef<FlightRecord> records) {
  const FlightRecord *known = llvm::find_if(records, hasProgram);
  return known == records.end() ? 0 : static_cast<size_t>(known - records.begin());
}

/// Records of one job have the program alike, too, if both know theirs.
bool belongTogether(const FlightRecord &a, const FlightRecord &b) {
  const bool isSameProgram = a.program == b.program && a.fingerprint == b.fingerprint;
  return a.job == b.job && a.ranks == b.ranks &&
         (isSameProgram || !hasProgram(a) || !hasProgram(b));
}

std::string jobText(const FlightRecord &record) {
  return fmt::format("job '{}' with {} ranks, program @{} ({})", printable(record.job),
                     record.ranks, printable(record.program), printable(record.fingerprint));
}

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

/// There is one cause, unless records are of several runs, or of a host that was cut off.
std::string causesText(llvm::ArrayRef<FlightRecord> records) {
  std::map<RecordedCause, std::vector<int64_t>> causes;
  for (const FlightRecord &record : records)
    causes[record.cause].push_back(record.rank);
  std::string text;
  for (const auto &[cause, ranks] : causes)
    text += fmt::format("\nfirst cause{}: {}",
                        causes.size() == 1 ? "" : ", say " + rangesText(ranks), causeText(cause));
  return text;
}

std::string headText(llvm::ArrayRef<FlightRecord> records) {
  const FlightRecord &known = records[mostTelling(records)];
  std::vector<int64_t> present;
  for (const FlightRecord &record : records)
    present.push_back(record.rank);
  const std::vector<int64_t> missing = missingRanks(records);
  return fmt::format("job {}, {}\n", printable(known.job), counted(known.ranks, "rank")) +
         (hasProgram(known) ? fmt::format("program @{} in {}\n", printable(known.program),
                                          printable(known.source))
                            : "program: none yet\n") +
         fmt::format("results were committed {}\nrecords of {}; {}\n",
                     counted(known.committed, "time"), rangesText(present),
                     missing.empty() ? "none is missing" : "missing: " + rangesText(missing));
}

/// In runs, or in commands where no Plan says how many a run has.
double progressOf(const FlightRecord &record) {
  return static_cast<double>(record.completed) /
         static_cast<double>(std::max<int64_t>(record.commands, 1));
}

} // namespace

Result<std::vector<FlightRecord>> sortRecords(std::vector<FlightRecord> records,
                                              llvm::ArrayRef<std::string> names) {
  std::map<int64_t, size_t> byRank;
  const size_t first = mostTelling(records);
  for (size_t i = 0; i < records.size(); ++i) {
    if (!belongTogether(records[i], records[first]))
      return badInput("{}: expected a record of {}, as in {}, got one of {}", names[i],
                      jobText(records[first]), names[first], jobText(records[i]));
    auto [known, isNew] = byRank.try_emplace(records[i].rank, i);
    if (!isNew)
      return badInput("{}: expected a record of another rank, got one of rank {}, as in {}",
                      names[i], records[i].rank, names[known->second]);
  }
  llvm::sort(records, [](const auto &a, const auto &b) { return a.rank < b.rank; });
  return records;
}

std::vector<int64_t> missingRanks(llvm::ArrayRef<FlightRecord> records) {
  std::vector<int64_t> missing;
  const FlightRecord *next = records.begin();
  for (int64_t rank = 0; rank < records.front().ranks; ++rank)
    if (next != records.end() && next->rank == rank)
      ++next;
    else
      missing.push_back(rank);
  return missing;
}

std::vector<int64_t> ranksBehind(llvm::ArrayRef<FlightRecord> records) {
  std::map<double, std::vector<int64_t>> byProgress;
  for (const FlightRecord &record : records)
    byProgress[progressOf(record)].push_back(record.rank);
  return byProgress.size() > 1 ? byProgress.begin()->second : std::vector<int64_t>();
}

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

std::string explainRecords(llvm::ArrayRef<FlightRecord> records) {
  std::string text = headText(records) + causesText(records);
  text += "\ncommands completed of those issued, over all runs, and what each rank was in\n";
  for (const FlightRecord &record : records)
    text += fmt::format("{:>13}  {}\n", fmt::format("{}/{}", record.completed, record.issued),
                        printable(record.doing, kLongestLine));
  const std::vector<int64_t> behind = ranksBehind(records);
  return text + fmt::format("\nfurthest behind: {}\n", behind.empty()
                                                           ? "none, all ranks have got equally far"
                                                           : rangesText(behind));
}

} // namespace braid
