//===- api/session.h - a program that is ready to run -----------------------------------------===//
#pragma once

#include "api/job.h"

namespace braid {

/// The tensors of one run on one rank, in the order of CompiledProgram::inputs() and outputs().
struct RankTensors {
  std::vector<Tensor> inputs, outputs;
};

/// Options for preparing a program, equal on all ranks.
struct PrepareOptions {
  /// Measures GEMMs that no job has measured yet, which may take a second on GPUs. If false, the
  /// library's guess is used for them until they have been measured.
  bool measures = true;
  /// Proves first that the program is safe, as `braid check` does, which takes some milliseconds;
  /// an unsafe program is Rejected. If false, any program runs.
  bool checks = true;
};

/// The memory of a session, and whether a graph holds the session.
struct SessionUsage {
  int64_t bytes = 0; ///< its buffers, flags and workspaces, on all ranks here
  int64_t most = 0;  ///< maximum over the ranks; the same on all ranks
  /// True if, at the end of the job's last prepare(), a graph of the caller that was not destroyed
  /// contained runs of this session, on any rank; the same on all ranks. Graphs are destroyed
  /// asynchronously, within a few milliseconds.
  bool isInGraph = false;
};

/// A program on the ranks of this process. Sessions share a job, its streams and its memory.
class Session {
public:
  /// Allocates memory, exchanges handles and tunes. Collective; blocks until all work issued to the
  /// job is done. Keeps `job` and `program` alive. Fails with BadInput if the program is for
  /// another number of ranks, or if ranks pass different programs; with Rejected, and the
  /// counterexample, if it is not safe; with Unsupported if it exceeds JobOptions::mostBytes.
  static Result<std::unique_ptr<Session>> prepare(std::shared_ptr<Job> job,
                                                  const CompiledProgram &program,
                                                  const PrepareOptions &options = {});
  /// Releases its resources. Never blocks: runs may be in flight; what they use becomes available
  /// once a later prepare() has returned, or the job has ended.
  ~Session();
  Session(const Session &) = delete;

  const CompiledProgram &program() const;
  /// Returns the number of issued runs, including replays, but not runs in the caller's graphs.
  int64_t runs() const;
  SessionUsage usage() const;

  /// Issues one run on the only rank of this process, and returns. It is ordered like a kernel on
  /// `stream`: a cudaStream_t on cuda, where null is CUDA's default stream, or one from
  /// Job::stream(). Runs of all sessions of a job follow one another, whatever their streams; all
  /// ranks issue them in the same order. Tensors must remain valid until the run is done; the next
  /// run may use others.
  ///
  /// Fails with BadInput, naming the tensor, and issues nothing, if a tensor does not match the
  /// program: number, element type, axes, extents, alignment, or location; or if an output overlaps
  /// another tensor. Also fails if the previous run's stream, another one, is being captured.
  ///
  /// A failed job runs nothing: run(), runAt(), capture() and replay() return the first cause as
  /// soon as this rank knows it, and outputs are undefined. For a run that fails later, this
  /// returns Ok; the next call, synchronize() or commit() returns the failure.
  ///
  /// If the stream is being captured, the run becomes part of the caller's graph instead, with the
  /// addresses of these tensors, after everything captured so far; runs of a job in one graph also
  /// follow one another. The caller may launch the graph any number of times while the session
  /// exists, and must order its launches, those of other graphs with runs of the job, and other
  /// runs of this session: if two runs of one session overlap, the job ends with BadInput. All
  /// ranks order the runs of all sessions alike, launches included. The results of a launch are
  /// valid once the caller has waited for its stream and Job::synchronize() or commit() has then
  /// returned Ok.
  Status run(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
             void *stream = nullptr);
  /// As run(), for tensors that match the program, by their addresses alone, inputs first: for
  /// callers that use the same addresses repeatedly. If the backend has graphs, the second run with
  /// the same addresses records a graph, which blocks, and from then on each run is a single
  /// launch; the last 256 sets of addresses are kept. Rows that do not exist (`ceil`) need no
  /// memory. Fails with BadInput if the number is wrong, or if a new address is null, not aligned,
  /// or in the wrong memory; does not detect overlaps. For the only rank of this process.
  Status runAt(std::span<void *const> addresses, void *stream = nullptr);
  /// As run(), on all ranks of this process: `ranks[i]` is for rank firstRank() + i. No output may
  /// overlap a tensor of another one of these ranks either.
  Status run(std::span<const RankTensors> ranks, void *stream = nullptr);

  /// Records one run as a graph, without executing it, in place of the previous one. Blocks. Fails
  /// with Unsupported if the backend has no graphs.
  Status capture(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  /// As capture(), on all ranks of this process.
  Status capture(std::span<const RankTensors> ranks);
  /// Issues the recorded run, as run() does. Fails with BadInput if there is none.
  Status replay(void *stream = nullptr);

private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace braid
