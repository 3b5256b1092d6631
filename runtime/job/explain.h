//===- runtime/job/explain.h - the records of a job's ranks side by side ----------------------===//
#pragma once

#include "runtime/job/flight_record.h"

namespace braid {

/// The ranks that have completed the fewest runs, or parts of a run. None: all have got equally
/// far.
std::vector<int64_t> ranksBehind(const FlightRecords &records);
/// "ranks 0-2, 5", of ranks in order.
std::string rangesText(llvm::ArrayRef<int64_t> ranks);
/// For people: nothing in it can move a terminal's cursor or change its colours.
std::string explainRecords(const FlightRecords &records);

} // namespace braid
