//===- runtime/job/explain.h - the records of a job's ranks side by side ----------------------===//
#pragma once

#include "runtime/job/flight_record.h"

namespace braid {

/// Formats the records for a terminal. Escapes everything that could move the cursor or change
/// colors.
std::string explainRecords(const FlightRecords &records);

} // namespace braid
