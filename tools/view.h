//===- tools/view.h - prints pages ------------------------------------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/check/checker.h"
#include "runtime/job/flight_record.h"

namespace braid::tools {

/// Each of these prints a page of api/view to stdout.
Status printPredicted(const Compiled &compiled);
Status printCounterexample(const Compiled &compiled, const CheckOptions &options);

Result<FlightRecords> readFlightRecords(const std::string &file);

} // namespace braid::tools
