//===- tools/choose_schedule.h - what `braid run --schedule auto` comes to --------------------===//
//
// Choosing is a job of its own, before the run: what it measured and allocated is gone when the run
// begins, which is then as if the flags had said what was chosen. Ranks that are threads choose on
// a cluster of their own; under another launcher, the ranks meet a second time; and our own
// launcher starts them twice, first with --choose-into FILE, which rank 0 writes its choice to, and
// then with --chosen TEXT.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/autotune/choose.h"
#include "api/launch/job_rank.h"
#include "tools/run_command.h"

namespace braid::tools {

/// One question, asked in the same way by all processes of a job.
class ScheduleChooser {
public:
  /// All outlive this. `given` is what the flags say about lowering, without a schedule; `source`
  /// holds the fusion, and lowers to a program for `ranks`.
  ScheduleChooser(const RunFlags &flags, const RankSetup &setup, const Backend &backend,
                  const Source &source, CompileOptions given, int64_t ranks);

  /// The choice, the same in all processes. Blocks.
  Result<Configurations> choose();
  /// In a process that choose() of the launcher has started, as a rank of `job`: chooses with the
  /// others, and writes it to --choose-into.
  Status answer(JobRank &job);
  /// The signal that interrupted the ranks that were to choose, or 0.
  int signal() const { return signal_; }

private:
  Result<Configurations> chooseByThreads();
  Result<Configurations> chooseByLaunching();
  Result<Configurations> chooseAsRank(JobRank &job);
  Result<Configurations> chooseOn(LocalMesh &mesh, std::vector<TimedPlans> &plans,
                                  const std::function<bool()> &barrier);
  ChooseOptions options() const;
  ClusterOptions clusterOptions() const;

  const RunFlags &flags_;
  const RankSetup &setup_;
  const Backend &backend_;
  const Source &source_;
  const CompileOptions given_;
  const int64_t ranks_;
  int signal_ = 0;
};

/// The command line of a rank: this process's own, with `extra` behind the subcommand.
std::vector<std::string> commandLine(const std::vector<std::string> &extra = {},
                                     llvm::StringRef command = "run");

} // namespace braid::tools
