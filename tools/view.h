//===- tools/view.h - pages, for commands that print them -------------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/check/checker.h"
#include "runtime/job/flight_record.h"

namespace braid::tools {

/// Each prints a page of api/view to stdout.
Status printPredicted(const Compiled &compiled);
Status printCounterexample(const Compiled &compiled, const CheckOptions &options);
Status printFlight(llvm::ArrayRef<FlightRecord> records, llvm::ArrayRef<std::string> names);

/// BadInput names the file that is no record.
Result<std::vector<FlightRecord>> readFlightRecords(llvm::ArrayRef<std::string> files);

} // namespace braid::tools
