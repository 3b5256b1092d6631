//===- runtime/job/flight_record.h - records the state of a failed job ------------------------===//
//
// Each host of a failed job writes one text file, which can be read without the program or its
// Plans. Any process that has mapped the job memory can write the file, so the file also covers
// ranks that are stopped or dead.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/job_view.h"

#include <string>
#include <vector>

namespace braid {

/// Describes the first failure and the state of every rank. Ranks that have completed the fewest
/// runs are listed first. `plans` belong to one program and may be missing for some or all ranks.
/// Escapes all characters that could move a terminal's cursor or change its colors.
std::string flightRecords(const JobMemory &memory, llvm::ArrayRef<Plan> plans,
                          const std::string &job);

/// Writes the records to a file in `directory`, which is created with mode 0700 if it does not
/// exist. The file has mode 0600 and atomically replaces any older file. Returns the file's path,
/// such as DIRECTORY/host0.txt.
Result<std::string> writeFlightRecords(const std::string &directory, const JobMemory &memory,
                                       llvm::ArrayRef<Plan> plans, const std::string &job);
/// Returns Unsupported, with the reason, if writeFlightRecords() would fail now. Creates no files.
Status checkRecordsFolder(const std::string &directory);

/// Returns the lines of a file written by writeFlightRecords(), or BadInput for any other file.
/// Escapes the lines again, because the file may have been edited.
Result<std::vector<std::string>> readFlightRecords(const std::string &file);

} // namespace braid
