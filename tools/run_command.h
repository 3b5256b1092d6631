//===- tools/run_command.h - what `braid run` was asked for, and what it prints ---------------===//
#pragma once

#include "api/autotune/choose.h"
#include "api/ranks/run.h"
#include "runtime/job/bootstrap/environment.h"
#include "tools/command.h"

namespace braid::tools {

struct RunFlags {
  SourceFlags source;
  std::string backend = "cpu";
  int64_t iterations = 1;
  bool verify = false;
  uint64_t seed = 1;
  std::optional<uint64_t> scheduleSeed;
  uint32_t queues = 0;
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

/// Who runs the ranks, and so what this process is.
struct RankSetup {
  enum Kind {
    Threads,  ///< all ranks are threads of it
    Launcher, ///< it starts a process for each rank
    Rank,     ///< it is one rank
  } kind = Threads;
  std::optional<Place> place = {}; ///< of a Rank

  /// It is a Rank that `braid run --processes` started.
  bool isLaunched() const { return place && !place->meeting.empty(); }
};

/// What ran, how long it took and what it was compared with; `choice` is what --schedule auto came
/// to.
void printSummary(llvm::raw_ostream &os, const RunFlags &flags, const Compiled &compiled,
                  const std::optional<ScheduleChoice> &choice, const RunReport &report);
/// What was chosen, by whom, and why; what the device chose, on stderr. `given` is what the flags
/// say; `joinSeconds` is what a Rank needed to join.
void printChoices(llvm::raw_ostream &os, const RunFlags &flags, const RankSetup &setup,
                  const Compiled &compiled, const Configurations &given,
                  const std::optional<ScheduleChoice> &choice, const RunReport &report,
                  double joinSeconds);

} // namespace braid::tools
