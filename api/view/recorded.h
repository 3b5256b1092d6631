//===- api/view/recorded.h - pages about the records of a failed job --------------------------===//
#pragma once

#include "api/view/page.h"
#include "runtime/job/flight_record.h"

namespace braid::view {

/// Shows the last commands of each rank of a failed job, and the command that each was executing.
Page recordedPage(const FlightRecords &records);

} // namespace braid::view
