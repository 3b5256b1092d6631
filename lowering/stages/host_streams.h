//===- lowering/stages/host_streams.h - streams of what crosses a network once a host ---------===//
//
// Transfers over the network have their own stream, and so have the waits for them: only work that
// needs their data waits for the network. In a gather
//
//   stream(0)   sends to other hosts, and receives
//   stream(1)   waits for what is received
//   stream(2..) what is passed on, behind a `synchronize stream(1)`, and GEMMs, in turn
//
// and with placement=shared stream(2) has the copies of what is passed on, and stream(3) its ready
// signals. In a reduction
//
//   stream(0)   ready signals, and what peers say when they have read
//   stream(1)   sums of the parts of a host, and waits for these parts
//   stream(2)   these sums on their way to other hosts
//   stream(3)   the final sum, and waits for the sums of other hosts
//   stream(4)   with placement=shared, copies of parts
//
// and behind those in two shots four more: the final sums' way to other hosts; waits for those of
// other hosts; what is passed on; and waits for that, with what copies to the result. GEMMs have
// the streams that are left. With fewer streams the last of these share one.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "lowering/state.h"

namespace braid {

class HostStreams {
public:
  /// `first`: the streams before this one are for transfers; 0: there is one stream.
  HostStreams(LoweringState &state, Stage &stage, Value *main, int64_t first);

  void assignGather();
  /// `others`: the first stream of a second shot.
  void assignReduction(int64_t others);

private:
  /// The stream for the nodes of a block, and the stream that they also wait for.
  struct Places {
    StreamRef ready = {};    ///< receives that peers fill
    StreamRef sends = {};    ///< sends that peers read
    StreamRef copies = {};   ///< transfers that are copied here, and waits for sends of them
    StreamRef arrivals = {}; ///< waits for receives
    StreamRef reads = {};    ///< waits for sends that peers read
    StreamRef computes = {}; ///< everything else
    std::optional<StreamRef> beforeSends = {};    ///< done before the first send
    std::optional<StreamRef> beforePair = {};     ///< done before the first transfer
    std::optional<StreamRef> beforeComputes = {}; ///< done before the first of everything else
  };
  void assign(Block &block, const Places &places);
  void assignSumGather(int64_t first);

  /// The stream for the GEMM of a host's `step`-th piece.
  StreamRef gemmStream(const Scalar *host, const Scalar *step) const;
  /// stream(number), or the last one before those of GEMMs.
  StreamRef special(int64_t number) const;
  void fork(Block &block, Block::iterator at, StreamRef stream,
            std::optional<StreamRef> other = std::nullopt);
  void join(Block &block, Block::iterator at, llvm::ArrayRef<StreamRef> streams);

  Program &program_;
  Stage &stage_;
  ScalarContext &scalars_;
  ProgramBuilder builder_;
  const StreamRef main_;
  const int64_t first_, streams_;
};

} // namespace braid
