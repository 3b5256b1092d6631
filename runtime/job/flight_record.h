//===- runtime/job/flight_record.h - what one rank of a failed job was doing ------------------===//
//
// A record is a JSON file, one for each rank, that needs neither the program nor its Plans to be
// read: it names the commands it mentions. It is made from the job memory, so also for ranks that
// are stopped or dead, and by whoever can see that memory. runtime/README.md says what is in
// it.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/job_snapshot.h"

#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace braid {

inline constexpr uint32_t kFlightRecordVersion = 1;

/// By the values of RankState.
inline constexpr const char *kStateNames[] = {"absent", "joined", "left", "dead"};

/// A node of the program.
struct FlightNode {
  std::string text;  ///< as printed
  std::string place; ///< file:line:col
};

/// A command of the rank's Plan.
struct FlightCommand {
  uint32_t index = 0; ///< into Plan::commands
  std::string kind;   ///< name(CommandKind)
  uint32_t stream = 0;
  uint32_t node = kNone;      ///< index into FlightRecord::nodes
  std::vector<int64_t> trips; ///< the values of the loop indices around it, outermost first
  int64_t peer = -1;          ///< of a transfer
};

/// Why the job was aborted.
struct FlightCause {
  StatusCode code = StatusCode::Internal;
  int64_t rank = -1; ///< that failed, or -1: the job's host, or unknown
  std::string text;
  bool operator==(const FlightCause &) const = default;
};

/// What decode() has accepted is consistent: ranks, nodes and streams that are named exist,
/// commands are in the order of their indices and the ring in that of its sequence numbers. Texts
/// may hold anything.
struct FlightRecord {
  std::string job;
  int64_t rank = 0, ranks = 1;
  std::string program, source; ///< empty before the rank has a Plan
  uint64_t fingerprint = 0;
  std::optional<FlightCause> cause;
  uint32_t committed = 0;  ///< steps of the job
  uint64_t recordedNs = 0; ///< when this was written down; all times are on one clock of the job
  RankSnapshot state;
  std::vector<std::string> streams;
  std::vector<FlightNode> nodes;
  /// Of a long Plan, those around where the slowest rank is, and all that the record mentions.
  std::vector<FlightCommand> commands;
  std::vector<FlightSnapshot> flight; ///< the last commands that began, oldest first

  /// Null if the record does not name it.
  const FlightCommand *find(uint32_t command) const;

  std::string encode() const;
  /// BadInput, "NAME:3:14: expected ..., got ...", for what is no record.
  static Result<FlightRecord> decode(llvm::StringRef text, llvm::StringRef name = "record");
};

/// The record of `rank` as it is now. `plans` are of one program, whose commands are numbered from
/// 0; they may lack those of some ranks, or all.
FlightRecord recordOf(const JobMemory &memory, llvm::ArrayRef<Plan> plans, int64_t rank,
                      const std::string &job);

/// "rank3.json"
std::string flightRecordName(int64_t rank);

/// Writes the records of `ranks` into `directory`, which is made (mode 0700) if it is not there and
/// must not be a symbolic link, nor another user's, nor writable for everybody without the sticky
/// bit: Unsupported. Each file (mode 0600) appears whole, in place of an older one; those of ranks
/// that the job has not got are removed.
/// Tries all of them; the first failure is returned.
Status writeFlightRecords(const std::string &directory, const JobMemory &memory,
                          llvm::ArrayRef<Plan> plans, llvm::ArrayRef<int64_t> ranks,
                          const std::string &job);
/// Whether that could be done now. Makes nothing. Unsupported, with the reason.
Status checkRecordsFolder(const std::string &directory);

} // namespace braid
