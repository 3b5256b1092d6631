//===- api/view/recorded.h - pages about the records of a failed job --------------------------===//
#pragma once

#include "api/view/page.h"
#include "runtime/job/flight_record.h"

namespace braid::view {

/// Shows what each rank of a failed job was doing; the rank that failed first comes first.
Page recordedPage(const FlightRecords &records);

} // namespace braid::view
