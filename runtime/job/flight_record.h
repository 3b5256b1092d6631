//===- runtime/job/flight_record.h - what one rank of a failed job was doing ------------------===//
//
// A record is a JSON file, one for each rank, that needs neither the program nor its Plans to be
// read. It is made from the job memory, so also for ranks that are stopped or dead, by any process
// that can see that memory. runtime/README.md says what is in it.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/job_view.h"

#include "llvm/Support/JSON.h"

#include <string>
#include <vector>

namespace braid {

/// A command of a run that began.
struct RecordedCommand {
  std::string kind; ///< name(CommandKind)
  std::string stream;
  std::string text;  ///< text of its node, as printed
  std::string place; ///< file:line:col
  std::string trips; ///< "0, 3": the values of the loop indices around it, outermost first
  int64_t run = 0;
  int64_t peer = -1;              ///< the peer of a transfer
  int64_t beginNs = 0, endNs = 0; ///< on one clock of the job; endNs == 0: it has not ended
};

/// The first failure of the job.
struct RecordedCause {
  int64_t code = 0;  ///< the exit code; 0: it was not aborted
  int64_t rank = -1; ///< that failed, or -1: the job's host, or unknown
  std::string text;
  auto operator<=>(const RecordedCause &) const = default;
};

/// A decoded record may hold anything, but for its version and a rank of at most 65536.
struct FlightRecord {
  int64_t version = 2;
  std::string job;
  int64_t rank = 0, ranks = 1;
  std::string program, source; ///< empty before the rank has a Plan
  std::string fingerprint;
  RecordedCause cause;
  int64_t committed = 0;               ///< steps of the job
  std::string doing;                   ///< JobView::rankText()
  int64_t issued = 0, completed = 0;   ///< commands, over all runs
  int64_t commands = 0;                ///< in one run
  RecordedCommand current;             ///< that `doing` names; without a kind: none
  std::vector<RecordedCommand> flight; ///< the last that began, oldest first

  std::string encode() const;
  /// BadInput, "NAME:3:14: expected JSON" or "NAME: expected ...", for what is no record.
  static Result<FlightRecord> decode(llvm::StringRef text, llvm::StringRef name = "record");
};

llvm::json::Value toJSON(const FlightRecord &record);

/// The record of `rank` as it is now. `plans` are of one program, whose commands are numbered from
/// 0; they may lack those of some ranks, or all.
FlightRecord recordOf(const JobMemory &memory, llvm::ArrayRef<Plan> plans, int64_t rank,
                      const std::string &job);

/// Writes the records of `ranks`, as "rank3.json", into `directory`, which is made (mode 0700) if
/// it is not there. Each file (mode 0600) appears whole, in place of an older one; those of ranks
/// that the job has not got are removed. Tries all of them; the first failure is returned.
Status writeFlightRecords(const std::string &directory, const JobMemory &memory,
                          llvm::ArrayRef<Plan> plans, llvm::ArrayRef<int64_t> ranks,
                          const std::string &job);
/// Whether that could be done now. Makes nothing. Unsupported, with the reason.
Status checkRecordsFolder(const std::string &directory);

} // namespace braid
