//===- api/view/recorded.h - pages about the records of a failed job --------------------------===//
#pragma once

#include "api/view/page.h"
#include "runtime/job/flight_record.h"

namespace braid::view {

/// The last commands of each rank of a failed job. Fails as merge() of flight_page.h does.
Result<Page> recordedPage(llvm::ArrayRef<FlightRecord> records, llvm::ArrayRef<std::string> names);

} // namespace braid::view
