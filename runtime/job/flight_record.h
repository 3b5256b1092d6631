//===- runtime/job/flight_record.h - what the ranks of a failed job were doing ----------------===//
//
// A host of a failed job leaves one JSON file, which needs neither the program nor its Plans to be
// read. It is made from the job memory, so it also says what ranks did that are stopped or dead, by
// any process that can see that memory. runtime/README.md says what is in it.
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
  bool operator==(const RecordedCause &) const = default;
};

/// The record of one rank.
struct RankRecord {
  std::string doing;                 ///< JobView::rankText()
  int64_t issued = 0, completed = 0; ///< commands, over all runs
  int64_t commands = 0;              ///< in one run; 0: no Plan is known
  RecordedCommand current;           ///< that `doing` names; without a kind: none
  /// The last commands that began, oldest first. Empty for ranks of other hosts.
  std::vector<RecordedCommand> flight;
};

/// Decoded records may hold anything, but for the version and at least one rank.
struct FlightRecords {
  int64_t version = 3;
  std::string job;
  std::string program, source, fingerprint; ///< empty if no Plan is known
  RecordedCause cause;
  int64_t committed = 0;         ///< steps of the job
  std::vector<RankRecord> ranks; ///< by number; those of other hosts as last heard

  std::string encode() const;
  /// BadInput, "NAME:3:14: expected JSON" or "NAME: expected ...", for any other text.
  static Result<FlightRecords> decode(llvm::StringRef text, llvm::StringRef name = "records");
};

llvm::json::Value toJSON(const FlightRecords &records);

/// The records of all ranks as they are now. `plans` are of one program; they may lack those of
/// some ranks, or all.
FlightRecords recordsOf(const JobMemory &memory, llvm::ArrayRef<Plan> plans,
                        const std::string &job);

/// Writes them into `directory`, which is made (mode 0700) if it is not there. The file (mode 0600)
/// appears whole, in place of an older one. Returns its path, DIRECTORY/host0.json on host 0.
Result<std::string> writeFlightRecords(const std::string &directory, const JobMemory &memory,
                                       llvm::ArrayRef<Plan> plans, const std::string &job);
/// Whether that could be done now. Makes nothing. Unsupported, with the reason.
Status checkRecordsFolder(const std::string &directory);

} // namespace braid
