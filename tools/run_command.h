//===- tools/run_command.h - what `braid run` was asked for, and what it prints ---------------===//
#pragma once

#include "api/ranks/run.h"
#include "runtime/job/bootstrap/environment.h"
#include "tools/command.h"

namespace braid::tools {

struct RunFlags {
  SourceFlags source;
  std::string backend = "cpu";
  RunOptions run;
  int64_t timeoutMs = 60000;
  std::string trace;
  bool noCheck = false;
  bool explain = false;
  bool processes = false;
  bool prefixOutput = false;
  std::string flightRecords;
  std::optional<double> autoSeconds;
  std::optional<int64_t> timeBest;
};

/// This process's part in the job.
struct RankSetup {
  enum Kind {
    Threads,  ///< all ranks are threads of it
    Launcher, ///< it starts a process for each rank
    Rank,     ///< it is one rank
  } kind = Threads;
  std::optional<Place> place = {}; ///< the place of a Rank

  /// It is a Rank that `braid run --processes` started.
  bool isLaunched() const { return place && !place->meeting.empty(); }
};

/// Prints the program, its time and the comparison.
void printSummary(llvm::raw_ostream &os, const RunFlags &flags, const ProgramState &program,
                  const RunReport &report);
/// Prints each choice with its origin, and those of the device on stderr. `meetSeconds` is the time
/// until all ranks had joined.
void printChoices(llvm::raw_ostream &os, const RunFlags &flags, const RankSetup &setup,
                  const ProgramState &program, const RunReport &report, double meetSeconds);

} // namespace braid::tools
