//===- lowering/stages/host_streams.cpp - streams under order=hierarchical --------------------===//

#include "lowering/stages/host_streams.h"

namespace braid {

void HostStreams::assignGather() {
  const bool isShared = stage_.config.placement() == schedule::Placement::Shared && first_ > 0;
  const StreamRef network = special(0), arrivals = special(1);
  const StreamRef far = gemmStream(stage_.loop->index, constant(0));
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
                              .beforeFirstSend = arrivals});
  // If the GEMM for a block from another host is not guarded, it is between the guard and the relay
  // loop.
  assign(stage_.stepBody(), {.computes = far, .beforeComputes = arrivals});
}

void HostStreams::assignReduction(int64_t others) {
  const bool isShared = stage_.config.placement() == schedule::Placement::Shared && first_ > 4;
  const Scalar *one = constant(1), *host = scalars_.sub(stage_.loop->index, one);
  const StreamRef signals = special(0), sums = special(1), network = special(2),
                  finals = special(3);
  const StreamRef parts = gemmStream(host, scalars_.sub(stage_.relay->index, one));
  const StreamRef last = gemmStream(host, constant(stage_.ranksPerHost - 1));
  const StreamRef copies = isShared ? special(4) : parts;
  assign(stage_.relay->body, exchange(sums, copies, parts));
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
  use(stage_.chunkLoop->body, stage_.sum->getIterator(), finals, sums);
  if (stage_.gather)
    assignSumGather(others);
}

/// Assigns the second shot. The sums that it gathers are computed on the stream for final sums.
void HostStreams::assignSumGather(int64_t first) {
  const StreamRef signals = special(0), finals = special(3), network = special(first),
                  arrivals = special(first + 1), moves = special(first + 2),
                  copies = special(first + 3);
  use(stage_.chunkLoop->body, stage_.gather->getIterator(), arrivals, finals);
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
                          .beforeFirstSend = arrivals});
  useForCopyOfSum(copies, finals);
}

StreamRef HostStreams::gemmStream(const Scalar *host, const Scalar *step) const {
  const Scalar *number = host;
  if (stage_.chunkLoop && stage_.isReduction())
    number = scalars_.add(scalars_.mul(stage_.chunkLoop->index, constant(stage_.hosts())), number);
  else if (stage_.chunkLoop)
    number = scalars_.add(scalars_.mul(number, constant(stage_.chunks)), stage_.chunkLoop->index);
  number = scalars_.add(scalars_.mul(number, constant(stage_.ranksPerHost)), step);
  return turn(number);
}

} // namespace braid
