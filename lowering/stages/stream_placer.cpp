//===- lowering/stages/stream_placer.cpp - places the nodes of a block on streams -------------===//

#include "lowering/stages/stream_placer.h"

#include "lowering/stages/transfers.h"

#include <utility>

namespace braid {

/// True for nodes that issue local work (computation or copies) to a stream.
static bool makes(const Op &op) {
  return computes(op) || llvm::isa<SumOp>(op) || llvm::isa<SetOp>(op);
}

StreamPlacer::StreamPlacer(LoweringState &state, Stage &stage, int64_t first)
    : Emitter(state), stage_(stage), streams_(stage.config.streams()), first_(first) {
  builder_.setLocation(stage.location());
}

void StreamPlacer::assign(Block &block, Block::iterator end, const Places &places) {
  bool hasTransfers = false, hasSent = false, hasComputed = false;
  for (Op &op : llvm::make_range(block.begin(), end)) {
    const P2POp *awaited = awaitedTransfer(op);
    if (const auto *transfer = llvm::dyn_cast<P2POp>(&op)) {
      const StreamRef passive = isSend(*transfer) ? places.sends : places.ready;
      std::optional<StreamRef> other;
      if (isSend(*transfer))
        other = std::exchange(hasSent, true) || !places.beforeFirstSend ? places.beforeSends
                                                                        : places.beforeFirstSend;
      if (!std::exchange(hasTransfers, true) && places.beforePair)
        other = places.beforePair;
      use(block, op.getIterator(), copiesHere(*transfer) ? places.copies : passive, other);
    } else if (awaited) {
      use(block, op.getIterator(),
          !isSend(*awaited)      ? places.arrivals
          : copiesHere(*awaited) ? places.copies
                                 : places.reads);
    } else if (makes(op)) {
      use(block, op.getIterator(), places.computes,
          std::exchange(hasComputed, true) ? std::nullopt : places.beforeComputes);
    }
  }
}

StreamPlacer::Places StreamPlacer::exchange(StreamRef sums, StreamRef copies,
                                            StreamRef gemms) const {
  const StreamRef signals = special(0);
  return {.ready = signals,
          .sends = copies,
          .copies = copies,
          .arrivals = sums,
          .reads = signals,
          .computes = gemms,
          .beforeSends = gemms};
}

void StreamPlacer::useForCopyOfSum(StreamRef copies, StreamRef sums) {
  Block &around = stage_.chunkLoop->body;
  use(around,
      std::find_if(stage_.gather->getIterator(), around.end(),
                   [](const Op &op) { return llvm::isa<SetOp>(op); }),
      copies, sums);
}

Op *StreamPlacer::use(Block &block, Block::iterator at, StreamRef stream,
                      std::optional<StreamRef> other) {
  builder_.setInsertionPoint(block, at);
  Op *set = builder_.setCurrentStream(stream);
  if (other && *other != stream)
    builder_.synchronize(*other);
  return set;
}

StreamRef StreamPlacer::special(int64_t number) const {
  return numbered(std::min(number, std::max<int64_t>(first_ - 1, 0)));
}

StreamRef StreamPlacer::turn(const Scalar *number) const {
  const int64_t streams = streams_ - first_;
  const Scalar *turn = streams == 1 ? constant(0) : scalars_.mod(number, constant(streams));
  return {nullptr, first_ == 0 ? turn : scalars_.add(constant(first_), turn)};
}

} // namespace braid
