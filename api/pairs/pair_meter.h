//===- api/pairs/pair_meter.h - one rank of those that measure --------------------------------===//
//
// For each size: blocks one way, many of them one after the other, in both directions in turn; then
// there and back. Before a run a source holds what its blocks are to be, and a destination holds
// the complement; after it, every block is compared. A run that is timed is repeated, and what is
// compared then is what its last repetition has left. So nothing of this is in a time.
//
// A time is that of the rank that copies, on its device: between two events where it has a
// stopwatch; else, and while all run, from the begin of the first copy for a peer to the end of the
// last one, where it keeps a trace. Without either it is the host's, and none while all run.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/block_runs.h"
#include "api/pairs/measurement.h"
#include "api/pairs/measuring_job.h"

namespace braid {

/// How many transfers a run has, and how long a burst of runs is to be.
struct Effort {
  int64_t runBytes, least, most; ///< of transfers one way
  int64_t turnBytes, mostTurns;  ///< there and back
  double burstUs;
};

class PairMeter {
public:
  /// `results` takes lines. All outlive this.
  PairMeter(const MeasuringJob &job, const Backend &backend, Cluster &cluster, int64_t rank,
            TimedPlans &plans, Barrier barrier, int results);

  /// Measures all that the job asks for, and says it. Collective; blocks. Wrong data end the path
  /// of that pair, and are no failure.
  Status measure();

private:
  /// A pair's work over one path, one way.
  struct Way {
    const PairWork *work;
    Moves moves;
    bool isOver = false;
  };
  /// A run, and what it moves.
  struct Attempt {
    BlockRun &run;
    const BlockTransfers &transfers;
    const Moves &moves;
    std::vector<Moves::End> to, from; ///< of this rank
    int64_t round = 0;                ///< of the first slot
  };
  /// Microseconds of a run; none: data were wrong.
  using MaybeUs = std::optional<double>;

  Status measurePath(std::vector<Way> ways);
  /// Whether there is no such path here. Says so.
  bool lacks(const std::vector<Way> &ways);
  Status open(const Way &way, int64_t bytes);
  Status measureSize(std::vector<Way> &ways, int64_t bytes);
  Status measureOneWay(Way &way, int64_t bytes);
  Status measureThereAndBack(std::vector<Way> &ways, int64_t bytes);
  Status measureTogether(int64_t number);

  Result<MaybeUs> time(const BlockTransfers &transfers, const Moves &moves);
  Result<double> burst(const Attempt &attempt, int64_t runs);
  Status prepareRound(Attempt &attempt);
  Result<bool> compareRound(const Attempt &attempt);
  void startTrace();
  std::vector<double> tracedUs(const Attempt &attempt);
  PatternKey keyOf(int64_t from, int64_t to, const Attempt &attempt) const;

  BlockTransfers transfersOf(Path path, int64_t bytes) const;
  bool fits(int64_t bytes, int64_t rows);
  Result<bool> haveAll(bool mine);
  Status meet();
  void say(Measurement measurement);
  Measurement lineOf(Measurement::Kind kind, Path path, int64_t bytes, int64_t from,
                     int64_t to) const;
  int64_t deviceOf(int64_t rank) const { return job_.devices[static_cast<size_t>(rank)]; }
  int64_t rankOf(int64_t device) const;
  Device &device() { return cluster_.device(rank_); }
  ControlPlane &control() { return cluster_.control(rank_); }

  const MeasuringJob &job_;
  Cluster &cluster_;
  const int64_t rank_;
  const Barrier barrier_; ///< null: meet by the control plane
  const int results_;
  const Effort &effort_;
  BlockRuns runs_;
  std::optional<Blocks> blocks_;
  int64_t nextRound_ = 0; ///< of this size
  bool isTracing_ = false;
};

} // namespace braid
