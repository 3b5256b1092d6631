//===- runtime/job/explain.h - the records of a job's ranks side by side ----------------------===//
#pragma once

#include "runtime/job/flight_record.h"

namespace braid {

/// Sorts records by rank. BadInput, naming the record by its `names`, if they are not of different
/// ranks of one job. There is at least one record, and as many names.
Result<std::vector<FlightRecord>> sortRecords(std::vector<FlightRecord> records,
                                              llvm::ArrayRef<std::string> names);

// The functions below take sorted records.

/// The job's ranks without a record.
std::vector<int64_t> missingRanks(llvm::ArrayRef<FlightRecord> records);
/// The ranks that have completed the fewest runs, or parts of a run. None: all have got equally
/// far.
std::vector<int64_t> ranksBehind(llvm::ArrayRef<FlightRecord> records);
/// "ranks 0-2, 5", of ranks in order.
std::string rangesText(llvm::ArrayRef<int64_t> ranks);
/// For people: nothing in it can move a terminal's cursor or change its colours.
std::string explainRecords(llvm::ArrayRef<FlightRecord> records);

} // namespace braid
