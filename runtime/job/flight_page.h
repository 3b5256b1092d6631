//===- runtime/job/flight_page.h - the records of a job's ranks on one page -------------------===//
//
// Puts records side by side: what each rank was in, and the first point of the program, in the
// order in which it is issued, that some ranks have completed and others have not. A point is a
// node in a run, with the values of the loop indices around it; ranks meet there whatever their
// numbers of commands are.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/flight_record.h"

namespace braid {

/// One rank's line of the table.
struct FlightRow {
  int64_t rank = 0;
  std::string state;                ///< "joined", ...
  uint32_t run = 0;                 ///< the last one issued
  uint64_t completed = 0;           ///< commands
  uint64_t issued = 0;              ///< commands
  std::optional<CommandId> current; ///< the command that the rank was in
  std::string in; ///< "await from rank 2 in \"...\" at f:13:5, run 2", or what its host does
  std::optional<double> forMs;
  std::optional<std::pair<uint32_t, uint32_t>> flag; ///< value, wanted
};

enum class PointState { Completed, In, NotBegun };

/// How far a rank is with a point.
struct FlightStanding {
  int64_t rank = 0;
  PointState state = PointState::NotBegun;
  std::string in;                ///< In: its command there
  std::optional<double> sinceMs; ///< when it completed or began it, if the ring still says so
};

/// A point that some ranks have completed and others have not.
struct FlightDifference {
  uint32_t run = 0;
  std::string node;                      ///< "\"%r = p2p recv ...\" (trip 1) at f:13:5"
  std::vector<FlightStanding> standings; ///< of the ranks that have it
};

struct FlightMoment {
  int64_t rank = 0;
  double atMs = 0;              ///< when it began, on the page's clock
  std::optional<double> tookMs; ///< nothing: it had not ended
  std::string stream, command;
  uint32_t flag = 0;
};

/// Times are in milliseconds after the first moment shown.
struct FlightPage {
  std::string job, program, source;
  int64_t ranks = 1;
  uint32_t committed = 0;
  std::vector<int64_t> present, missing;
  std::optional<FlightCause> cause;
  std::vector<int64_t> otherCauses; ///< ranks whose record has another one than that
  std::vector<FlightRow> rows;      ///< by rank
  std::optional<FlightDifference> difference;
  /// The last commands that began before any rank was past the difference; or before the end.
  std::vector<FlightMoment> timeline;
};

/// BadInput, naming the record by its `names`, if they are not of different ranks of one job. There
/// is at least one record, and as many names.
Result<FlightPage> merge(llvm::ArrayRef<FlightRecord> records, llvm::ArrayRef<std::string> names);

/// "ranks 0-2, 5", of ranks in order.
std::string rangesText(llvm::ArrayRef<int64_t> ranks);

/// For people: nothing in it can move a terminal's cursor or change its colours.
std::string str(const FlightPage &page);
/// For tools: JSON in ASCII.
std::string toJson(const FlightPage &page);

} // namespace braid
