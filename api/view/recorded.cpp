//===- api/view/recorded.cpp - pages about the records of a failed job ------------------------===//

#include "api/view/pages.h"
#include "ir/counted.h"
#include "runtime/job/explain.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid::view {

Page recordedPage(const FlightRecords &records) {
  Page page;
  page.title = records.program.empty() ? "a job without a program" : "@" + records.program;
  page.isFailure = true;
  page.subtitle =
      fmt::format("flight records of {} of job {}",
                  counted(static_cast<int64_t>(records.ranks.size()), "rank"), records.job);
  page.timings.push_back({.name = "recorded"});
  if (const RecordedCause &cause = records.cause; cause.code != 0)
    page.findings.push_back(
        fmt::format("First cause{}: {}",
                    cause.rank < 0 ? "" : fmt::format(", of rank {}", cause.rank), cause.text));
  for (size_t rank = 0; rank < records.ranks.size(); ++rank) {
    const RankRecord &record = records.ranks[rank];
    page.text.push_back(fmt::format(
        "{:>13}  {}", fmt::format("{}/{}", record.completed, record.issued), record.doing));
    const Mark mark{.text =
                        "R" + record.doing.substr(std::min<size_t>(1, record.doing.size())) + ".",
                    .line = static_cast<uint32_t>(rank + 1)};
    const bool isCause = records.cause.code != 0 && records.cause.rank == int64_t(rank);
    page.marks.insert(isCause ? page.marks.begin() : page.marks.end(), mark);
  }
  return page;
}

} // namespace braid::view
