//===- api/view/flight.h - pages about flight records -----------------------------------------===//
#pragma once

#include "api/view/page.h"
#include "runtime/job/flight_record.h"

namespace braid::view {

/// What each rank of a failed job did last, and where it stood. As merge() of flight_page.h fails.
Result<Page> flightPage(llvm::ArrayRef<FlightRecord> records, llvm::ArrayRef<std::string> names);

} // namespace braid::view
