//===- api/job.h - the ranks that run programs together ---------------------------------------===//
//
//   auto job = Job::join({.backend = "cuda"});               // one rank, of torchrun's, say
//   auto program = (*job)->compileFile("mlp.braid");         // collective
//   auto session = Session::prepare(*job, *program);         // collective
//   (*session)->run({{x, w}}, {{y}}, stream);               // Tensors: address and TensorSpec
//   (*job)->synchronize();
//
// Nothing here is thread-safe. What is collective is called by all ranks of a job, in one order. A
// process made by fork() has no part in the job: there calls are BadInput, abort() does nothing,
// and destructors release nothing.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/program.h"

#include <chrono>

namespace braid {

struct JobState;

/// The place of this process in a job that the embedding program puts together. If a launcher's job
/// fails, rank 0 kills processes that go on for another second; in this job none is killed.
struct JobPlace {
  int64_t rank = 0, ranks = 1;
  /// The same on all ranks, and unlike that of any other job of this user on this host.
  std::string name;
};

struct JobOptions {
  /// "cpu", "cuda", "nccl" or "null".
  std::string backend = "cpu";
  /// For create(): the number of ranks. For join(): the number that is expected, or 0 for any.
  int64_t ranks = 0;
  /// No rank makes progress for so long, or does not come: TimedOut.
  std::chrono::milliseconds timeout{60000};
  /// The most bytes that sessions may hold together on one rank, equal on all ranks; 0: no bound.
  /// Later sessions reuse the memory of ended ones; giveBack() returns it to the machine.
  int64_t mostBytes = 0;
  /// Programs that were compiled to be reproducible can run.
  bool reproducible = false;
  /// CUDA's number of the GPU; nothing: the rank's number on this host, or the only GPU there is.
  std::optional<int> device = {};
  /// For join(): the place, instead of the environment's.
  std::optional<JobPlace> place = {};
  /// Orders in which the streams may run are drawn from this seed. Of create(), cpu only.
  std::optional<uint64_t> scheduleSeed = {};
};

/// The memory of a job's sessions on this process's ranks.
struct JobUsage {
  int64_t sessions = 0; ///< that have not ended
  int64_t bytes = 0;    ///< their buffers, flags and workspaces, on all ranks here
  int64_t most = 0;     ///< the largest amount on any one rank: the same number on all ranks
  int64_t inGraphs = 0; ///< the part of `most` of sessions whose SessionUsage::isInGraph is true
  /// All memory that the job holds for sessions, on all ranks here: that of live sessions, that of
  /// ended ones, and unused space between.
  int64_t held = 0;
  /// The same on one rank at most, when a prepare() or giveBack() of the job returned last: the
  /// same number on all ranks.
  int64_t mostHeld = 0;
};

/// Ranks that have met. Ends with the last of its sessions.
class Job {
public:
  /// All ranks, as threads of this process. Unsupported for cuda, whose ranks are processes.
  static Result<std::shared_ptr<Job>> create(const JobOptions &options);
  /// This process is one rank: which one JobOptions::place says, or else its environment, as
  /// torchrun, mpirun, srun or BRAID_RANK and BRAID_RANKS set it. Collective; blocks until all
  /// ranks have come. BadInput if the environment says nothing, or contradicts itself, or if ranks
  /// contradict each other.
  static Result<std::shared_ptr<Job>> join(const JobOptions &options);
  ~Job();
  Job(const Job &) = delete;

  int64_t ranks() const;
  /// The ranks of this process: hosted() of them, from firstRank() on. One, after join().
  int64_t firstRank() const;
  int64_t hosted() const;

  /// compileText() for these ranks, which may choose the schedule by measuring: as `auto` says, or
  /// on GPUs if none is named; without a choice it is pairwise. What is chosen is the fastest for
  /// Session::run(); for Session::replay(), with `auto;launch=graph`. All ranks get the same.
  ///
  /// Collective; blocks until what was issued to the job is done. BadInput, too, if ranks bring
  /// different texts or options. Memory that trials took stays with the job, for its sessions.
  Result<CompiledProgram> compileText(const std::string &name, const std::string &text,
                                      const LoweringOptions &options = {});
  /// The same for a file.
  Result<CompiledProgram> compileFile(const std::string &path, const LoweringOptions &options = {});

  /// A stream of the job's own, the same for the same number, for callers who have none: what
  /// Session::run() takes. On cuda a cudaStream_t. Of every rank here, after create(). Unsupported
  /// if there is no further stream: then nothing has changed, and the job goes on.
  Result<void *> stream(uint32_t number);

  /// Collective after create() only: blocks until everything issued here is done. A failure is that
  /// of all ranks, the first cause; contents of outputs are undefined then, and the job is over.
  Status synchronize();
  /// Collective. Blocks until everything that was issued here is done. Ok on every rank or on none;
  /// results count only after Ok.
  Status commit();
  /// Ends the job in good order: commit(), and all that it holds is given back. BadInput, and
  /// nothing has ended, while a session lives, or on any rank a graph that a run was captured into
  /// (Session::run()): what such a graph holds cannot be given back. So it may be called again.
  /// Collective; blocks. Afterwards everything else is BadInput. Without it the destructor gives
  /// back what it can.
  Status close();
  /// Ends the job for all ranks, because of `cause`, unless it has failed before; the first cause.
  Status fail(const Status &cause);
  /// The same without blocking, and from any thread: a call of another thread's that blocks in this
  /// job then returns the first cause. Not beside the destructor.
  void abort(const Status &cause);

  JobUsage usage() const;
  /// Gives back to the machine what sessions held that have ended, as far as nothing else lies in
  /// it; memory of NCCL goes with the job. Without this a prepare() gives back what
  /// the one before it did not need either, and CPU ranks all of it. Collective; blocks until what
  /// was issued to the job is done.
  Status giveBack();

  /// Remembers this moment, in the order of runs: 1, 2, ...; 0 if the stream of the last run is
  /// being captured, for a graph has no end. Does not block.
  int64_t mark();
  /// The last mark() that all runs issued before it are done; 0: none. Does not block.
  int64_t passedMarks() const;
  /// Whether a command still runs though synchronize() has returned, after a failure. It may not
  /// end before the process does: what was given to runs must not be freed.
  bool isStuck() const;

private:
  friend class Session;
  explicit Job(std::unique_ptr<JobState> state);
  std::unique_ptr<JobState> state_;
};

} // namespace braid
