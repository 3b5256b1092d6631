//===- api/job.h - ranks that run programs together -------------------------------------------===//
//
//   auto job = Job::join({.backend = "cuda"});               // one rank, e.g. under torchrun
//   auto program = (*job)->compileFile("mlp.braid");         // collective
//   auto session = Session::prepare(*job, *program);         // collective
//   (*session)->run({{x, w}}, {{y}}, stream);               // Tensors: address and TensorSpec
//   (*job)->synchronize();
//
// Not thread-safe, except for Job::abort(). All ranks of a job must make collective calls in the
// same order. A process created by fork() is not part of the job: its calls fail with BadInput,
// abort() is a no-op, and destructors release nothing.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/program.h"

#include <chrono>

namespace braid {

struct JobState;

/// This process's rank in a job that the embedding program assembles. If this job fails, Braid
/// kills no process; in a launcher's job, rank 0 kills processes still running a second later.
struct JobPlace {
  int64_t rank = 0, ranks = 1;
  /// Must be equal on all ranks, and unique among this user's jobs on this host.
  std::string name;
};

struct JobOptions {
  /// "cpu", "cuda", "nccl" or "null".
  std::string backend = "cpu";
  /// For create(): the number of ranks. For join(): the expected number, or 0 for any.
  int64_t ranks = 0;
  /// Calls fail with TimedOut if no rank makes progress, or a rank is missing, for this long.
  std::chrono::milliseconds timeout{60000};
  /// Maximum total bytes of all sessions on one rank, equal on all ranks. 0: unlimited. New
  /// sessions reuse the memory of destroyed ones; giveBack() returns this memory to the system.
  int64_t mostBytes = 0;
  /// Must be true to run programs that were compiled with LoweringOptions::reproducible.
  bool reproducible = false;
  /// The CUDA device number. If empty: the rank's index on this host, or the only GPU.
  std::optional<int> device = {};
  /// For join(): overrides the rank and job that the environment defines.
  std::optional<JobPlace> place = {};
  /// For create() on cpu: the seed for a random order of commands that respects stream order.
  std::optional<uint64_t> scheduleSeed = {};
};

/// Memory usage of a job's sessions on the ranks in this process.
struct JobUsage {
  int64_t sessions = 0; ///< number of existing sessions
  int64_t bytes = 0;    ///< buffers, flags and workspaces, on all ranks in this process
  int64_t most = 0;     ///< the most that any rank of the job uses; equal on all ranks
  int64_t inGraphs = 0; ///< the part of `most` that belongs to sessions with isInGraph set
  /// All memory that the job reserves for sessions on the ranks in this process: memory of existing
  /// and destroyed sessions, and unused gaps in between.
  int64_t held = 0;
  /// The most that any rank held after the last prepare() or giveBack(); equal on all ranks.
  int64_t mostHeld = 0;
};

/// A group of connected ranks. Sessions keep their job alive.
class Job {
public:
  /// Creates all ranks as threads of this process. Unsupported on cuda, where ranks are processes.
  static Result<std::shared_ptr<Job>> create(const JobOptions &options);
  /// Joins a job as one rank, given by JobOptions::place or by the environment (set by torchrun,
  /// mpirun or srun, or BRAID_RANK and BRAID_RANKS). Collective; blocks until all ranks have
  /// joined. Fails with BadInput if the environment defines no rank or is inconsistent, or if ranks
  /// contradict each other.
  static Result<std::shared_ptr<Job>> join(const JobOptions &options);
  ~Job();
  Job(const Job &) = delete;

  int64_t ranks() const;
  /// This process has hosted() ranks, starting with firstRank(). hosted() is 1 after join().
  int64_t firstRank() const;
  int64_t hosted() const;

  /// As braid::compileText(), for the ranks of this job. If the schedule is `auto`, or empty on
  /// GPUs, the ranks measure candidates and use the fastest one for Session::run(), or, with
  /// `auto;launch=graph`, for Session::replay(). Otherwise, an empty schedule means pairwise. All
  /// ranks use the same schedule.
  ///
  /// Collective; blocks until all work issued to the job is done. Also fails with BadInput if ranks
  /// pass different texts or options. Later sessions reuse the memory that the trials allocated.
  Result<CompiledProgram> compileText(const std::string &name, const std::string &text,
                                      const LoweringOptions &options = {});
  /// As compileText(), for a file.
  Result<CompiledProgram> compileFile(const std::string &path, const LoweringOptions &options = {});

  /// Returns stream `number` of the job, for callers that have no stream to pass to Session::run().
  /// The job owns the stream, a cudaStream_t on cuda. After create(), it is valid for all ranks in
  /// this process. If no more streams are available, fails with Unsupported without ending the job.
  Result<void *> stream(uint32_t number);

  /// Blocks until all work issued by this process is done. Collective only after create(). Returns
  /// the job's first failure, equal on all ranks; outputs are then undefined, and the job ends.
  Status synchronize();
  /// Collective; blocks until all work issued by this process is done. Returns Ok on all ranks or
  /// on none. Results are valid only if it returns Ok.
  Status commit();
  /// Commits, then releases all resources of the job, which ends it. Fails with BadInput while a
  /// session exists, or while any rank has a graph that contains a captured run (see
  /// Session::run()), because the graph's resources cannot be released; the job then stays open.
  /// Collective; blocks. All later calls except close() fail with BadInput. If close() was not
  /// called, the destructor releases the resources that it can.
  Status close();
  /// Ends the job on all ranks with `cause`, unless it has failed. Returns its first failure.
  Status fail(const Status &cause);
  /// As fail(), but non-blocking and callable from any thread: calls in which other threads are
  /// blocked return the first failure. Must not overlap with the destructor.
  void abort(const Status &cause);

  JobUsage usage() const;
  /// Returns the memory of destroyed sessions to the system, except memory that is still shared.
  /// NCCL keeps its memory until the job ends. If giveBack() is not called, prepare() returns only
  /// memory that neither this nor the previous prepare() needed, or, on CPU ranks, all unused
  /// memory. Collective; blocks until all work issued to the job is done.
  Status giveBack();

  /// Places a mark after all runs issued so far and returns its number: 1, 2, ... Returns 0 if the
  /// last run's stream is being captured, because captured runs never complete. Does not block.
  int64_t mark();
  /// Returns the last mark whose preceding runs are all done, or 0. Does not block.
  int64_t passedMarks() const;
  /// Returns true if, after a failure, a command is still running although synchronize() has
  /// returned. The command may never end, so the caller must not free the tensors of any run.
  bool isStuck() const;

private:
  friend class Session;
  explicit Job(std::unique_ptr<JobState> state);
  std::unique_ptr<JobState> state_;
};

} // namespace braid
