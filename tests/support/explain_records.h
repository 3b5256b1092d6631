//===- tests/support/explain_records.h - the page of some flight records ----------------------===//
#pragma once

#include "runtime/job/flight_page.h"

namespace braid::test {

/// The page, or what is wrong with the records.
inline std::string explain(llvm::ArrayRef<FlightRecord> records) {
  std::vector<std::string> names;
  for (const FlightRecord &record : records)
    names.push_back(flightRecordName(record.rank));
  Result<FlightPage> page = merge(records, names);
  return page ? str(*page) : page.status().message();
}

} // namespace braid::test
