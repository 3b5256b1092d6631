//===- api/session.h - a program that is ready to run -----------------------------------------===//
#pragma once

#include "api/job.h"

namespace braid {

/// The caller's tensors for one run on one rank, ordered as in the CompiledProgram.
struct RankTensors {
  std::vector<Tensor> inputs, outputs;
};

/// Options for Session::prepare(). Must be the same on all ranks.
struct PrepareOptions {
  /// If true, measures algorithms for GEMMs that no job has measured yet, which may take a second
  /// on GPUs. If false, such GEMMs use the algorithm selected by the GEMM library's heuristic.
  bool measures = true;
  /// If true, first checks in a few milliseconds that the program is safe, like `braid check`, and
  /// fails with Rejected if the program is unsafe. If false, does not check the program.
  bool checks = true;
};

/// A session's memory usage, and whether a graph contains runs of the session.
struct SessionUsage {
  int64_t bytes = 0; ///< buffers, flags and workspaces, on all ranks in this process
  int64_t most = 0;  ///< maximum on any one rank of the job; equal on all ranks
  /// True if, at the end of the job's last prepare(), a live graph on any rank contained runs of
  /// this session; equal on all ranks. A destroyed graph may count as live for a few milliseconds,
  /// because graphs are destroyed asynchronously.
  bool isInGraph = false;
};

/// A program prepared on the ranks in this process. All sessions of a job share streams and memory.
class Session {
public:
  /// Allocates memory, exchanges handles and tunes GEMMs. Collective; blocks until all work issued
  /// to the job is done. Keeps `job` and `program` alive. Fails with BadInput if the program is for
  /// a different number of ranks, or if ranks pass different programs; with Rejected and a
  /// counterexample if the program is unsafe; and with Unsupported if JobOptions::mostBytes is
  /// exceeded.
  static Result<std::unique_ptr<Session>> prepare(std::shared_ptr<Job> job,
                                                  const CompiledProgram &program,
                                                  const PrepareOptions &options = {});
  /// Releases the session's resources without blocking. The resources of runs in flight are
  /// released by a later prepare(), or when the job ends.
  ~Session();
  Session(const Session &) = delete;

  const CompiledProgram &program() const;
  /// Returns the number of issued runs, including replays but excluding runs in callers' graphs.
  int64_t runs() const;
  SessionUsage usage() const;

  /// Issues one run on the only rank in this process, without waiting for the run to finish. The
  /// run is ordered like a kernel on `stream`, which is a cudaStream_t on cuda (null is CUDA's
  /// default stream), or a stream from Job::stream(). Runs of all sessions of a job are serialized,
  /// even on different streams; all ranks must issue them in the same order. Tensors must remain
  /// valid until the run is done. Each run may use different tensors.
  ///
  /// Fails with BadInput and issues nothing if the number, element type, axes, extents, alignment
  /// or memory of the tensors does not match the program, if an output overlaps another tensor, or
  /// if the previous run used a different stream that is being captured.
  ///
  /// After a failure, the job executes no more runs: run(), runAt(), capture() and replay() return
  /// the first failure as soon as this rank learns of it, and outputs are undefined. If a run fails
  /// after run() has returned Ok, the next call, synchronize() or commit() returns the failure.
  ///
  /// If `stream` is being captured, the run is not executed. Instead, it is appended to the
  /// caller's graph with the given addresses. A job's runs in one graph are serialized. The caller
  /// may launch the graph any number of times while the session exists, but must serialize these
  /// launches with one another, with launches of any other graph that contains runs of the job, and
  /// with other runs of this session. If two runs of a session overlap, the job ends with BadInput.
  /// All ranks must issue runs and launches in the same order. Results of a launch are valid once
  /// the caller has waited for its stream and Job::synchronize() or commit() has then returned Ok.
  Status run(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
             void *stream = nullptr);
  /// Like run(), but takes only the addresses of tensors that match the program, inputs first.
  /// Intended for callers that reuse addresses: if the backend has graphs, the second run with the
  /// same addresses records a graph, which blocks, and each later run is a single graph launch. The
  /// 256 most recently used sets of addresses are cached. The padding rows of a `ceil` axis need no
  /// memory. Fails with BadInput if the number of addresses is wrong, or if a new address is null,
  /// misaligned, or in the wrong memory; does not detect overlapping tensors.
  Status runAt(std::span<void *const> addresses, void *stream = nullptr);
  /// Like run(), but on all ranks in this process: `ranks[i]` contains the tensors for rank
  /// firstRank() + i. Outputs must also not overlap tensors of other ranks.
  Status run(std::span<const RankTensors> ranks, void *stream = nullptr);

  /// Records one run as a graph without executing the run. Replaces any earlier recording. Blocks.
  /// Fails with Unsupported if the backend has no graphs.
  Status capture(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  /// Like capture(), but on all ranks in this process.
  Status capture(std::span<const RankTensors> ranks);
  /// Issues the recorded run, like run(). Fails with BadInput if no run was recorded.
  Status replay(void *stream = nullptr);

private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace braid
