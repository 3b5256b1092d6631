//===- runtime/job/flight_record.h - what the ranks of a failed job were doing ----------------===//
//
// Each host of a failed job leaves one JSON file, which can be read without the program or its
// Plans. The file is made from the job memory, by any process that has mapped it, so it also covers
// ranks that are stopped or dead. runtime/README.md describes the contents.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/job_view.h"

#include <string>
#include <vector>

namespace braid {

/// The first failure of the job.
struct RecordedCause {
  int64_t code = 0;  ///< the exit code; 0 if the job was not aborted
  int64_t rank = -1; ///< the rank that failed; -1 for the job's host or an unknown rank
  std::string text;
  bool operator==(const RecordedCause &) const = default;
};

struct RankRecord {
  std::string doing;                 ///< JobView::rankText()
  int64_t issued = 0, completed = 0; ///< numbers of commands, over all runs
  int64_t commands = 0;              ///< commands in one run; 0 if the Plan is unknown
};

/// The records of a job. Decoding checks only the version and that there is at least one rank; all
/// other values may be arbitrary.
struct FlightRecords {
  static constexpr int64_t kVersion = 4;
  std::string job;
  std::string program, source, fingerprint; ///< empty if no Plan is known
  RecordedCause cause;
  int64_t committed = 0;         ///< committed steps of the job
  std::vector<RankRecord> ranks; ///< by rank; ranks of other hosts are as last reported

  std::string encode() const;
  /// Returns BadInput, "NAME:3:14: expected JSON" or "NAME: expected ...", for malformed text.
  static Result<FlightRecords> decode(llvm::StringRef text, llvm::StringRef name = "records");
};

/// Returns the current records of all ranks. `plans` belong to one program and may be missing for
/// some or all ranks.
FlightRecords recordsOf(const JobMemory &memory, llvm::ArrayRef<Plan> plans,
                        const std::string &job);

/// Writes the records into `directory`, which is created with mode 0700 if it does not exist. The
/// file has mode 0600 and replaces an older one atomically. Returns its path, such as
/// DIRECTORY/host0.json.
Result<std::string> writeFlightRecords(const std::string &directory, const JobMemory &memory,
                                       llvm::ArrayRef<Plan> plans, const std::string &job);
/// Returns Unsupported, with the reason, if writeFlightRecords() would fail now. Creates nothing.
Status checkRecordsFolder(const std::string &directory);

} // namespace braid
