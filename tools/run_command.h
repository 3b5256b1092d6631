//===- tools/run_command.h - the flags and the output of `braid run` --------------------------===//
#pragma once

#include "api/ranks/run.h"
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

/// The role of this process in the job.
struct RankSetup {
  std::optional<Place> place = {}; ///< set if this process is one rank
  bool isLauncher = false;         ///< true if this process starts one process per rank

  /// Returns true if all ranks are threads of this process.
  bool areThreads() const { return !place && !isLauncher; }
  /// Returns true if `braid run --processes` started this rank.
  bool isLaunched() const { return place && !place->meeting.empty(); }
};

/// Prints the program, its run time, and the result of --verify.
void printSummary(llvm::raw_ostream &os, const RunFlags &flags, const ProgramState &program,
                  const RunReport &report);
/// Prints each choice and its origin; prints machine-specific choices on stderr.
void printChoices(llvm::raw_ostream &os, const RunFlags &flags, const RankSetup &setup,
                  const ProgramState &program, const RunReport &report);

} // namespace braid::tools
