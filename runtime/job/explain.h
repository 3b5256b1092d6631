//===- runtime/job/explain.h - the records of a job's ranks side by side ----------------------===//
#pragma once

#include "runtime/job/flight_record.h"

namespace braid {

/// Returns the ranks that have completed the fewest runs, or the smallest part of a run. Returns
/// none if all ranks have made equal progress.
std::vector<int64_t> ranksBehind(const FlightRecords &records);
/// Formats ordered ranks, for example "ranks 0-2, 5".
std::string rangesText(llvm::ArrayRef<int64_t> ranks);
/// Formats the records for a terminal. Escapes everything that could move the cursor or change
/// colors.
std::string explainRecords(const FlightRecords &records);

} // namespace braid
