//===- api/job.h - ranks that run programs together -------------------------------------------===//
//
//   auto job = Job::join({.backend = "cuda"});               // one rank, e.g. under torchrun
//   auto program = (*job)->compileFile("mlp.braid");         // collective
//   auto session = Session::prepare(*job, *program);         // collective
//   (*session)->run({{x, w}}, {{y}}, stream);               // Tensors: address and TensorSpec
//   (*job)->synchronize();
//
// Jobs are not thread-safe, except for Job::abort(). All ranks of a job must make collective calls
// in the same order. A process created by fork() is not part of the job: in that process, calls
// fail with BadInput, abort() is a no-op, and destructors release nothing.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/program.h"

#include <chrono>

namespace braid {

struct JobState;

/// This process's rank in a job whose processes are started by the embedding program. Braid does
/// not kill these processes after a failure; only Braid's launcher kills the ranks that it started.
struct JobPlace {
  int64_t rank = 0, ranks = 1;
  /// The job's name: the same on all ranks, and unique among this user's jobs on this host.
  std::string name;
};

struct JobOptions {
  /// "cpu", "cuda", "nccl" or "null".
  std::string backend = "cpu";
  /// For create(): the number of ranks. For join(): the expected number of ranks, or 0 for any.
  int64_t ranks = 0;
  /// Calls fail with TimedOut if no rank makes progress, or if a rank is missing, for this long.
  std::chrono::milliseconds timeout{60000};
  /// Limit on the total bytes of all sessions on one rank; must be the same on all ranks. 0 means
  /// unlimited. New sessions reuse the memory of destroyed sessions until giveBack() releases it.
  int64_t mostBytes = 0;
  /// Must be true to run programs compiled with LoweringOptions::reproducible.
  bool reproducible = false;
  /// The CUDA device number. Defaults to the only GPU, or else to the rank's index on this host.
  std::optional<int> device = {};
  /// For join(): overrides the rank and the job defined by the environment.
  std::optional<JobPlace> place = {};
  /// For create() on cpu: the seed for a random order of execution that respects stream order.
  std::optional<uint64_t> scheduleSeed = {};
};

/// Memory usage of a job's sessions on the ranks in this process.
struct JobUsage {
  int64_t sessions = 0; ///< number of existing sessions
  int64_t bytes = 0;    ///< buffers, flags and workspaces, on all ranks in this process
  int64_t most = 0;     ///< total of SessionUsage::most over the sessions; equal on all ranks
  int64_t inGraphs = 0; ///< the part of `most` that belongs to sessions with isInGraph set
  /// Memory reserved for sessions on the ranks in this process: the memory of existing and
  /// destroyed sessions, and unused gaps between them.
  int64_t held = 0;
  /// The maximum reserved on any rank after the last prepare() or giveBack(); equal on all ranks.
  int64_t mostHeld = 0;
};

/// A group of connected ranks. Sessions keep their job alive.
class Job {
public:
  /// Creates all ranks as threads of this process. Fails with Unsupported on cuda.
  static Result<std::shared_ptr<Job>> create(const JobOptions &options);
  /// Joins a job as one rank, given by JobOptions::place or by the environment (set by torchrun,
  /// mpirun or srun, or BRAID_RANK and BRAID_RANKS). Collective; blocks until all ranks have
  /// joined. Fails with BadInput if the environment defines no rank or is inconsistent, or if ranks
  /// disagree about the job.
  static Result<std::shared_ptr<Job>> join(const JobOptions &options);
  ~Job();
  Job(const Job &) = delete;

  int64_t ranks() const;
  /// This process hosts hosted() consecutive ranks, starting at firstRank(). join() hosts one rank.
  int64_t firstRank() const;
  int64_t hosted() const;

  /// Like braid::compileText(), but for the ranks of this job. If the schedule is `auto`, or empty
  /// on GPUs, the ranks time candidates and select the fastest one for Session::run(), or, with
  /// `auto;launch=graph`, for Session::replay(). Otherwise, an empty schedule means pairwise. All
  /// ranks use the same schedule.
  ///
  /// Collective; blocks until all work issued to the job is done. Also fails with BadInput if ranks
  /// pass different texts or options. Later sessions reuse the memory allocated for the trials.
  Result<CompiledProgram> compileText(const std::string &name, const std::string &text,
                                      const LoweringOptions &options = {});
  /// Like compileText(), but reads the text from a file.
  Result<CompiledProgram> compileFile(const std::string &path, const LoweringOptions &options = {});

  /// Returns the job's stream `number`, for callers of Session::run() that have no stream. The job
  /// owns the stream, a cudaStream_t on cuda. After create(), the stream is valid for all ranks. If
  /// no more streams are available, fails with Unsupported without ending the job.
  Result<void *> stream(uint32_t number);

  /// Blocks until all work issued by this process is done. Not collective after join(). If the job
  /// has failed, returns its first failure, equal on all ranks; outputs are then undefined.
  Status synchronize();
  /// Collective; blocks until all work issued by this process is done. Returns Ok on all ranks or
  /// on none. Results are valid only if commit() returns Ok.
  Status commit();
  /// Commits, then ends the job and releases all of its resources. Fails with BadInput while a
  /// session exists, or while any rank has a graph that contains a captured run (see
  /// Session::run()), because the graph's resources cannot be released; the job then stays open.
  /// Collective; blocks. All later calls except close() fail with BadInput. If close() was not
  /// called, the destructor releases resources on a best-effort basis.
  Status close();
  /// Ends the job on all ranks with `cause`, unless it failed earlier. Returns the first failure.
  Status fail(const Status &cause);
  /// Like fail(), but does not block and may be called from any thread. Calls that are blocked in
  /// other threads return the job's first failure. Must not run concurrently with the destructor.
  void abort(const Status &cause);

  JobUsage usage() const;
  /// Returns the memory of destroyed sessions to the system, except memory that existing sessions
  /// share or that NCCL uses until the job ends. Without giveBack(), each prepare() returns only
  /// memory that neither it nor the previous prepare() needed or, on CPU ranks, all unused memory.
  /// Collective; blocks until all work issued to the job is done.
  Status giveBack();

  /// Marks the end of all runs issued so far. Returns the mark's number, counting from 1, or 0 if
  /// the last run's stream is being captured, because captured runs never complete. Does not block.
  int64_t mark();
  /// Returns the number of the last mark whose preceding runs are all done, or 0. Does not block.
  int64_t passedMarks() const;
  /// Returns true if a command is still running after a failure, even though synchronize() has
  /// returned. The command may never end, so the caller must not free the tensors of any run.
  bool isStuck() const;

private:
  friend class Session;
  explicit Job(std::unique_ptr<JobState> state);
  std::unique_ptr<JobState> state_;
};

} // namespace braid
