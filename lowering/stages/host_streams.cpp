//===- lowering/stages/host_streams.cpp - streams under order=hierarchical --------------------===//

#include "lowering/stages/host_streams.h"

#include "lowering/emit.h"
#include "lowering/stages/transfers.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

bool isSend(const P2POp &transfer) { return transfer.direction == Direction::Send; }

/// True for nodes that issue local work (computation or copies) to a stream.
bool makes(const Op &op) { return computes(op) || llvm::isa<SumOp>(op) || llvm::isa<SetOp>(op); }

} // namespace

HostStreams::HostStreams(LoweringState &state, Stage &stage, Value *main, int64_t first)
    : program_(*state.program), stage_(stage), scalars_(state.program->scalars()),
      builder_(builderFor(state)), main_{main, nullptr}, first_(first),
      streams_(stage.config.streams()) {
  builder_.setLocation(stage.location());
}

void HostStreams::assignGather() {
  const bool isShared = stage_.config.placement() == schedule::Placement::Shared && first_ > 0;
  const StreamRef network = special(0), arrivals = special(1);
  const StreamRef far = gemmStream(stage_.loop->index, scalars_.constant(0));
  const StreamRef near = gemmStream(stage_.loop->index, stage_.relay->index);
  const StreamRef copies = isShared ? special(2) : near, signals = isShared ? special(3) : near;
  assign(stage_.guard->thenBlock, {.ready = network,
                                   .sends = network,
                                   .copies = network,
                                   .arrivals = arrivals,
                                   .reads = far,
                                   .computes = far,
                                   .beforeComputes = arrivals});
  assign(stage_.relay->body, {.ready = signals,
                              .sends = signals,
                              .copies = copies,
                              .arrivals = near,
                              .reads = near,
                              .computes = near,
                              .beforeSends = arrivals});
  // Unless guarded, the GEMM for the far block is between the guard and the relay loop.
  assign(stage_.stepBody(), {.computes = far, .beforeComputes = arrivals});
}

void HostStreams::assignReduction(int64_t others) {
  const bool isShared = stage_.config.placement() == schedule::Placement::Shared && first_ > 4;
  const Scalar *one = scalars_.constant(1), *host = scalars_.sub(stage_.loop->index, one);
  const StreamRef signals = special(0), sums = special(1), network = special(2),
                  finals = special(3);
  const StreamRef parts = gemmStream(host, scalars_.sub(stage_.relay->index, one));
  const StreamRef last = gemmStream(host, scalars_.constant(stage_.ranksPerHost - 1));
  const StreamRef copies = isShared ? special(4) : parts;
  assign(stage_.relay->body, {.ready = signals,
                              .sends = copies,
                              .copies = copies,
                              .arrivals = sums,
                              .reads = signals,
                              .computes = parts,
                              .beforeSends = parts});
  assign(stage_.loop->body, {.computes = last});
  Block &toOthers = stage_.guard->thenBlock;
  assign(toOthers, {.ready = network,
                    .sends = network,
                    .copies = network,
                    .arrivals = finals,
                    .reads = signals,
                    .computes = sums,
                    .beforePair = sums,
                    .beforeComputes = last});
  assign(stage_.guard->elseBlock, {.computes = sums, .beforeComputes = last});
  Block &around = stage_.chunkLoop->body;
  Op &end = *withFunctions(program_, *stage_.sum).back();
  fork(around, stage_.sum->getIterator(), finals, sums);
  join(around, std::next(end.getIterator()), {finals});
  if (stage_.gather)
    assignSumGather(others);
}

/// Assigns the second shot. The sums that it gathers are computed on the stream for final sums.
void HostStreams::assignSumGather(int64_t first) {
  const StreamRef signals = special(0), finals = special(3), network = special(first),
                  arrivals = special(first + 1), moves = special(first + 2),
                  copies = special(first + 3);
  Block &around = stage_.chunkLoop->body;
  fork(around, stage_.gather->getIterator(), arrivals, finals);
  join(around, stage_.gather->getIterator(), {arrivals});
  for (Op &op : stage_.gather->body)
    if (auto *far = llvm::dyn_cast<IfOp>(&op))
      assign(far->thenBlock, {.ready = network,
                              .sends = network,
                              .copies = network,
                              .arrivals = arrivals,
                              .reads = signals,
                              .computes = copies,
                              .beforePair = finals,
                              .beforeComputes = arrivals});
    else if (auto *near = llvm::dyn_cast<ForOp>(&op))
      assign(near->body, {.ready = signals,
                          .sends = moves,
                          .copies = moves,
                          .arrivals = copies,
                          .reads = signals,
                          .computes = copies,
                          .beforeSends = arrivals});
  const auto own = std::find_if(stage_.gather->getIterator(), around.end(),
                                [](const Op &op) { return llvm::isa<SetOp>(op); });
  if (own == around.end())
    return;
  fork(around, own, copies, finals);
  join(around, around.end(), {copies});
}

void HostStreams::assign(Block &block, const Places &places) {
  llvm::SmallVector<StreamRef, 4> used;
  bool hasTransfers = false, hasSent = false, hasComputed = false;
  auto place = [&](Op &op, StreamRef stream, std::optional<StreamRef> other = std::nullopt) {
    fork(block, op.getIterator(), stream, other);
    if (!llvm::is_contained(used, stream))
      used.push_back(stream);
  };
  for (Op &op : llvm::make_early_inc_range(block)) {
    const P2POp *awaited = awaitedTransfer(op);
    if (const auto *transfer = llvm::dyn_cast<P2POp>(&op)) {
      const StreamRef passive = isSend(*transfer) ? places.sends : places.ready;
      // Synchronize only before the first send, to keep a group of messages adjacent.
      const bool isFirstSend = isSend(*transfer) && !std::exchange(hasSent, true);
      std::optional<StreamRef> other = isFirstSend ? places.beforeSends : std::nullopt;
      if (!std::exchange(hasTransfers, true) && places.beforePair)
        other = places.beforePair;
      place(op, copiesHere(*transfer) ? places.copies : passive, other);
    } else if (awaited) {
      place(op, !isSend(*awaited)      ? places.arrivals
                : copiesHere(*awaited) ? places.copies
                                       : places.reads);
    } else if (makes(op)) {
      place(op, places.computes,
            std::exchange(hasComputed, true) ? std::nullopt : places.beforeComputes);
    }
  }
  if (!used.empty())
    join(block, block.end(), used);
}

StreamRef HostStreams::gemmStream(const Scalar *host, const Scalar *step) const {
  const Scalar *number = host;
  if (stage_.chunkLoop && stage_.isReduction())
    number = scalars_.add(scalars_.mul(stage_.chunkLoop->index, scalars_.constant(stage_.hosts())),
                          number);
  else if (stage_.chunkLoop)
    number = scalars_.add(scalars_.mul(number, scalars_.constant(stage_.chunks)),
                          stage_.chunkLoop->index);
  number = scalars_.add(scalars_.mul(number, scalars_.constant(stage_.ranksPerHost)), step);
  const int64_t streams = streams_ - first_;
  const Scalar *turn =
      streams == 1 ? scalars_.constant(0) : scalars_.mod(number, scalars_.constant(streams));
  return {nullptr, first_ == 0 ? turn : scalars_.add(scalars_.constant(first_), turn)};
}

StreamRef HostStreams::special(int64_t number) const {
  return {nullptr, scalars_.constant(std::min(number, std::max<int64_t>(first_ - 1, 0)))};
}

void HostStreams::fork(Block &block, Block::iterator at, StreamRef stream,
                       std::optional<StreamRef> other) {
  builder_.setInsertionPoint(block, at);
  builder_.setCurrentStream(stream);
  stage_.syncs.emplace_back(&block, builder_.synchronize(main_));
  if (other && *other != stream)
    builder_.synchronize(*other);
}

void HostStreams::join(Block &block, Block::iterator at, llvm::ArrayRef<StreamRef> streams) {
  builder_.setInsertionPoint(block, at);
  stage_.syncs.emplace_back(&block, builder_.setCurrentStream(main_));
  for (StreamRef stream : streams)
    stage_.syncs.emplace_back(&block, builder_.synchronize(stream));
}

} // namespace braid
