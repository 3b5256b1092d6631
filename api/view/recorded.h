//===- api/view/recorded.h - pages about the records of a failed job --------------------------===//
#pragma once

#include "api/view/page.h"
#include "runtime/job/flight_record.h"

namespace braid::view {

/// The last commands of each rank of a failed job, and what it stood in.
Page recordedPage(const FlightRecords &records);

} // namespace braid::view
