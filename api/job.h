//===- api/job.h - ranks that run programs together -------------------------------------------===//
//
//   auto job = Job::join({.backend = "cuda"});               // one rank, of torchrun's, say
//   auto program = (*job)->compileFile("mlp.braid");         // collective
//   auto session = Session::prepare(*job, *program);         // collective
//   (*session)->run({{x, w}}, {{y}}, stream);               // Tensors: address and TensorSpec
//   (*job)->synchronize();
//
// Nothing here is thread-safe. All ranks of a job must make collective calls in the same order. A
// process created by fork() is not part of the job: its calls fail with BadInput, abort() does
// nothing, and destructors release nothing.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/program.h"

#include <chrono>

namespace braid {

struct JobState;

/// The place of this process in a job that the embedding program assembles. If a launcher's job
/// fails, rank 0 kills processes that still run a second later; in this job it kills none.
struct JobPlace {
  int64_t rank = 0, ranks = 1;
  /// The same on all ranks, and different from any other job of this user on this host.
  std::string name;
};

struct JobOptions {
  /// "cpu", "cuda", "nccl" or "null".
  std::string backend = "cpu";
  /// For create(): the number of ranks. For join(): the expected number, or 0 for any.
  int64_t ranks = 0;
  /// Calls fail with TimedOut if no rank makes progress, or if a rank is missing, for this time.
  std::chrono::milliseconds timeout{60000};
  /// Maximum bytes that sessions may hold together on one rank, equal on all ranks; 0: unlimited.
  /// Later sessions reuse the memory of destroyed ones; giveBack() returns it to the system.
  int64_t mostBytes = 0;
  /// Required for programs that were compiled to be reproducible.
  bool reproducible = false;
  /// CUDA's device number. Empty: the rank's index on this host, or the only GPU.
  std::optional<int> device = {};
  /// For join(): the place of this process, instead of that in the environment.
  std::optional<JobPlace> place = {};
  /// For create() on cpu: seed of a random order among those that the streams allow.
  std::optional<uint64_t> scheduleSeed = {};
};

/// The memory of a job's sessions on this process's ranks.
struct JobUsage {
  int64_t sessions = 0; ///< number of existing sessions
  int64_t bytes = 0;    ///< their buffers, flags and workspaces, on all ranks here
  int64_t most = 0;     ///< maximum over the ranks; the same on all ranks
  int64_t inGraphs = 0; ///< part of `most` in sessions whose SessionUsage::isInGraph is true
  /// All memory that the job holds for sessions, on all ranks here: that of existing sessions, that
  /// of destroyed ones, and unused space in between.
  int64_t held = 0;
  /// Maximum of `held` over the ranks after the last prepare() or giveBack(); equal on all ranks.
  int64_t mostHeld = 0;
};

/// A group of connected ranks. Sessions keep their job alive.
class Job {
public:
  /// Creates all ranks as threads of this process. Unsupported on cuda, whose ranks are processes.
  static Result<std::shared_ptr<Job>> create(const JobOptions &options);
  /// Joins a job as one rank: that of JobOptions::place, or that in the environment, as set by
  /// torchrun, mpirun, srun, or BRAID_RANK and BRAID_RANKS. Collective; blocks until all ranks have
  /// joined. Fails with BadInput if the environment has no rank or contradicts itself, or if ranks
  /// contradict each other.
  static Result<std::shared_ptr<Job>> join(const JobOptions &options);
  ~Job();
  Job(const Job &) = delete;

  int64_t ranks() const;
  /// This process has hosted() ranks, starting with firstRank(); one after join().
  int64_t firstRank() const;
  int64_t hosted() const;

  /// As braid::compileText(), for these ranks, which may choose the schedule by measuring: with
  /// `auto`, or on GPUs if no schedule is named. Without a choice the schedule is pairwise. The
  /// choice is the fastest for Session::run(), or, with `auto;launch=graph`, for Session::replay().
  /// It is the same on all ranks.
  ///
  /// Collective; blocks until all work issued to the job is done. Also fails with BadInput if ranks
  /// pass different texts or options. The job keeps the memory of trials for its sessions.
  Result<CompiledProgram> compileText(const std::string &name, const std::string &text,
                                      const LoweringOptions &options = {});
  /// As compileText(), for a file.
  Result<CompiledProgram> compileFile(const std::string &path, const LoweringOptions &options = {});

  /// Returns a stream that the job owns, for callers without a stream, to pass to Session::run():
  /// the same for the same number. A cudaStream_t on cuda. After create(), it applies to every rank
  /// here. Fails with Unsupported if there is no further stream; the job then continues unchanged.
  Result<void *> stream(uint32_t number);

  /// Blocks until everything issued here is done. Collective only after create(). A failure is the
  /// first cause, equal on all ranks; the contents of outputs are then undefined, and the job ends.
  Status synchronize();
  /// Collective; blocks until everything issued here is done. Returns Ok on every rank or on none.
  /// Results are valid only after Ok.
  Status commit();
  /// Ends the job: commits, and releases everything that it holds. Fails with BadInput, and ends
  /// nothing, while a session exists, or while any rank has a graph into which a run was captured
  /// (Session::run()), because such a graph's resources cannot be released; it may be called again.
  /// Collective; blocks. Afterwards all other calls fail with BadInput. Without it, the destructor
  /// releases what it can.
  Status close();
  /// Ends the job for all ranks with `cause`, unless it has failed before. Returns the first cause.
  Status fail(const Status &cause);
  /// As fail(), without blocking, and callable from any thread: calls of other threads that block
  /// in this job then return the first cause. Must not overlap with the destructor.
  void abort(const Status &cause);

  JobUsage usage() const;
  /// Returns memory of destroyed sessions to the system, as far as nothing else shares it; memory
  /// of NCCL stays until the job ends. Otherwise, a prepare() returns the memory that the previous
  /// one did not need either, or all of it on CPU ranks. Collective; blocks until all work issued
  /// to the job is done.
  Status giveBack();

  /// Records this moment in the order of runs and returns its number: 1, 2, ... Returns 0 if the
  /// stream of the last run is being captured, because a graph has no end. Does not block.
  int64_t mark();
  /// Returns the last mark before which all issued runs are done, or 0. Does not block.
  int64_t passedMarks() const;
  /// True if a command is still running although synchronize() has returned, after a failure. It
  /// may never end: the tensors of runs must not be freed.
  bool isStuck() const;

private:
  friend class Session;
  explicit Job(std::unique_ptr<JobState> state);
  std::unique_ptr<JobState> state_;
};

} // namespace braid
