//===- lowering/stages/stream_placer.h - places the nodes of a block on streams ---------------===//
#pragma once

#include "lowering/emit.h"

namespace braid {

/// Places the nodes of one stage on streams. GEMMs use the streams from `first_` on, round-robin;
/// lower-numbered streams are for transfers and sums. `first_` is 0 if there is only one stream.
class StreamPlacer : protected Emitter {
public:
  StreamPlacer(LoweringState &state, Stage &stage, int64_t first = 0);

protected:
  /// The streams for the nodes in a block, and the streams that these nodes wait for.
  struct Places {
    StreamRef ready = {};    ///< receives whose data peers write
    StreamRef sends = {};    ///< sends whose data peers copy
    StreamRef copies = {};   ///< transfers whose data this rank copies, and waits for pushed sends
    StreamRef arrivals = {}; ///< waits for receives
    StreamRef reads = {};    ///< waits for peers to copy sent data
    StreamRef computes = {}; ///< all other nodes
    std::optional<StreamRef> beforeSends = {};     ///< each send waits for this stream
    std::optional<StreamRef> beforeFirstSend = {}; ///< the first send waits for this stream
    std::optional<StreamRef> beforePair = {};      ///< the first transfer waits for this stream
    std::optional<StreamRef> beforeComputes = {};  ///< the first computation waits for this stream
  };
  /// Places the nodes in `block`, up to `end`.
  void assign(Block &block, Block::iterator end, const Places &places);
  void assign(Block &block, const Places &places) { assign(block, block.end(), places); }
  /// Returns the streams for a step of a reduction: a GEMM, the send of its result, and a receive.
  /// Ready signals use stream(0).
  Places exchange(StreamRef sums, StreamRef copies, StreamRef gemms) const;
  /// Places the copy of this rank's sums, which follows the second shot of an all-reduce.
  void useForCopyOfSum(StreamRef copies, StreamRef sums);

  /// Makes `stream` current from `at` on. If `other` is another stream, `stream` waits for it.
  Op *use(Block &block, Block::iterator at, StreamRef stream,
          std::optional<StreamRef> other = std::nullopt);

  /// Returns stream(number).
  StreamRef numbered(int64_t number) const { return {nullptr, constant(number)}; }
  /// Returns stream(number), or the last transfer stream if its number is less than `number`.
  StreamRef special(int64_t number) const;
  /// Returns the stream for work unit `number`.
  StreamRef turn(const Scalar *number) const;
  static bool isSend(const P2POp &transfer) { return transfer.direction == Direction::Send; }

  Stage &stage_;
  const int64_t streams_; ///< streams available to the stage
  int64_t first_;
};

} // namespace braid
