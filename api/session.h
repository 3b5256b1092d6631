//===- api/session.h - a program, ready to run ------------------------------------------------===//
#pragma once

#include "api/job.h"

namespace braid {

/// The tensors of one run on one rank, in the order of CompiledProgram::inputs() and outputs().
struct RankTensors {
  std::vector<Tensor> inputs, outputs;
};

/// Options of preparing a program. The same on all ranks.
struct PrepareOptions {
  /// GEMMs that no job has measured yet are measured, which may take a second on GPUs; otherwise
  /// they are left to a guess of the library's, until they are.
  bool measures = true;
  /// The program that will run is proved safe first, as `braid check` does, which takes some
  /// milliseconds; what is not safe is Rejected. Without it whatever it is will run.
  bool checks = true;
};

/// The memory of a session, and whether a graph holds the session.
struct SessionUsage {
  int64_t bytes = 0; ///< its buffers, flags and workspaces, on all ranks here
  int64_t most = 0;  ///< on one rank at most: the same number on all ranks
  /// When a prepare() of the job's returned last, a graph of the caller's that was not destroyed
  /// held runs of this session, on some rank: the same on all ranks. One that is destroyed goes a
  /// few milliseconds later.
  bool isInGraph = false;
};

/// A program on the ranks of this process. Many share one job, its streams and its memory.
class Session {
public:
  /// Allocates, exchanges handles, tunes. Collective; blocks until all that was issued to the job
  /// is done. `job` and `program` are kept as long as they are needed. BadInput if the program is
  /// for another number of ranks, or ranks bring different ones; Rejected, with the counterexample,
  /// if it is not safe; Unsupported beyond JobOptions::mostBytes.
  static Result<std::unique_ptr<Session>> prepare(std::shared_ptr<Job> job,
                                                  const CompiledProgram &program,
                                                  const PrepareOptions &options = {});
  /// Gives back what it has. Never blocks: runs may be in flight, and what they use is free for
  /// others when a later prepare() has returned, or the job has ended.
  ~Session();
  Session(const Session &) = delete;

  const CompiledProgram &program() const;
  /// Runs issued so far, replays included; not those in graphs of the caller.
  int64_t runs() const;
  SessionUsage usage() const;

  /// Issues one run on the one rank that is here, and returns. It is ordered like a kernel on
  /// `stream`: a cudaStream_t on cuda, where null is CUDA's default stream, or one of
  /// Job::stream(). Runs of all sessions of a job follow one another, whatever their streams; all
  /// ranks issue them in the same order. Tensors stay until the run is done, and may be others in
  /// the next.
  ///
  /// BadInput, and nothing is issued, if a tensor is not as the program wants it: number, element
  /// type, axes, extents, alignment, where it lies, and no output may overlap another tensor. The
  /// message names it. Also if the stream of the run before is being captured, and this is another.
  ///
  /// A job that has failed runs nothing: run(), runAt(), capture() and replay() return the first
  /// cause as soon as this rank knows it, and outputs are undefined. A run that fails later returns
  /// Ok here, and its failure from the next call, synchronize() or commit().
  ///
  /// If the stream is being captured, the run is recorded into the caller's graph instead, with the
  /// addresses of these tensors, and depends on what the capture has before it; in one graph, runs
  /// of a job follow one another, too. The caller launches the graph, any number of times while the
  /// session lasts, and orders its launches, those of other graphs that hold runs of the job, and
  /// other runs of this session: where two of one session overlap, the job ends with BadInput. All
  /// ranks order the runs of all sessions alike, launches included. A launch counts when the caller
  /// has waited for its stream and Job::synchronize() or commit() has returned Ok after that.
  Status run(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
             void *stream = nullptr);
  /// run() with tensors that are as the program wants them, by their addresses alone, inputs first:
  /// for callers who bring the same addresses again and again. What came twice is recorded as a
  /// graph where the backend has them, and is one launch from the second time on, of the last 256
  /// sets of addresses; recording blocks. Of rows that do not exist (`ceil`) there need be no
  /// memory. BadInput if the number is wrong, or an address that was not there before is null, is
  /// not aligned or lies elsewhere; overlaps are not looked for. On the one rank that is here.
  Status runAt(std::span<void *const> addresses, void *stream = nullptr);
  /// run() on all ranks that are here, `ranks[i]` on rank firstRank() + i. No output may overlap a
  /// tensor of another of these ranks either.
  Status run(std::span<const RankTensors> ranks, void *stream = nullptr);

  /// Records one run as a graph, in place of the one before; nothing runs. Blocks. Unsupported
  /// where the backend has no graphs.
  Status capture(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  /// The same on all ranks that are here.
  Status capture(std::span<const RankTensors> ranks);
  /// Issues the recorded run, as run() does. BadInput if there is none.
  Status replay(void *stream = nullptr);

private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace braid
