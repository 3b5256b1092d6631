//===- api/choose.h - how to run a fusion fastest ---------------------------------------------===//
//
// Candidates are lowered and specialised like any other program; a simulator predicts each from a
// model of the machine that was measured on the ranks of the job, and the few best are then timed
// themselves. So a wrong prediction costs a little time here, and no wrong choice among those.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/calibrate.h"
#include "api/compile.h"
#include "api/gather_bench.h"

#include <limits>

namespace braid {

/// One way to run a fusion.
struct Candidate {
  Schedule schedule = Schedule::Pairwise;
  Protocol protocol = Protocol::Get;
  int64_t chunks = 0; ///< in all; 0: one a block
  int64_t streams = 0, taper = 1;
  Transfers transfers = Transfers::Each;
  TransferMeans means = {};
  Issuing issuing = Issuing::Eager;

  /// `options` with what this one says about lowering.
  CompileOptions applyTo(CompileOptions options) const;
  /// "pairwise;protocol=get;chunks=8;streams=3;taper=2;issuing=graph"; also transfers, copies and
  /// signals; these and taper only where they are not the default.
  std::string str() const;
  /// Reads what str() writes; BadInput names the part that is not so.
  static Result<Candidate> fromText(llvm::StringRef text);
};

struct JudgedCandidate {
  Candidate candidate;
  double predictedUs = 0;
  std::optional<double> measuredUs = {};

  /// Of the prediction, as a part of what was measured; nothing if nothing was.
  std::optional<double> error() const;
};

struct ScheduleChoice {
  /// The chosen one first; then those that were timed, the fastest first; then the others as they
  /// were predicted.
  std::vector<JudgedCandidate> candidates;
  std::string fusion; ///< its name
  int64_t ranks = 0;
  std::string reason;
  std::string source; ///< where the model of the machine is from

  const Candidate &best() const { return candidates.front().candidate; }
  /// Mean of |error()| over those that were timed; 0 if none was.
  double meanError() const;
};

/// The table of the candidates, the best `most` of them, with the choice and its reason, for
/// people.
std::string explain(const ScheduleChoice &choice, size_t most = std::numeric_limits<size_t>::max());

struct ChooseOptions {
  /// What is given here is not varied; `schedule` is usually empty.
  CompileOptions given;
  /// Ways to issue that are allowed, at least one; the backend has all of them.
  std::vector<Issuing> ways{Issuing::Eager};
  /// Empty: all that are worth a look and that the device offers.
  std::vector<TransferMeans> means = {};
  /// How many of the best predicted are timed; 0: the prediction alone decides. Empty: those that
  /// are predicted to be as fast as the best, within what predictions are off by; from 3 to 10.
  std::optional<int64_t> timed = {};
  /// Where the model is kept between jobs, and whatever it depends on besides the device.
  std::string cacheFolder, cacheKey;
  std::function<void(const std::string &line)> warn; ///< about the cache; may be null
};

/// The options of a job on `backend`, with where it keeps its model: the same for all that it does.
ChooseOptions chooseOptions(const Backend &backend, bool ranksAreProcesses);

/// Decides for all ranks: collective, blocks, the same choice everywhere. `text` holds the fusion,
/// `name` is its file. BadInput if it holds a program already; what cannot be lowered at all fails
/// as compile() does.
Result<ScheduleChoice> choose(const std::string &name, const std::string &text,
                              const ChooseOptions &options, PlanTimer &timer);

/// `row` with the schedule and the way to issue that choose() finds for it. What `row.options` says
/// is kept, but for the schedule. `choice`, if not null, gets what there is to explain.
Result<GatherRow> chooseRow(GatherRow row, ChooseOptions options, PlanTimer &timer,
                            ScheduleChoice *choice = nullptr);

} // namespace braid
