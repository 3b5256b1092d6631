//===- lowering/passes/assign_streams.cpp - assigns steps to streams --------------------------===//
//
// Assigns steps and chunks to streams round-robin. Any two steps of a stage either access different
// slices or are on the same stream. Therefore, it is sufficient that the streams wait for the
// caller's earlier work, and that the caller's later work waits for all streams:
//
//   for %j in 0 .. 4 {
//     set_current_stream stream(%j)
//     synchronize %main
//   }
//   for %i in 1 .. 8 {
//     set_current_stream stream(%i mod 4)
//     ...
//   }
//   set_current_stream %main
//   for %j in 0 .. 4 {
//     synchronize stream(%j)
//   }
//
// In a ring, a block is forwarded as soon as it arrives. In the `ring` preset, all transfers are on
// stream(0) and GEMMs are on the other streams, so forwarding does not wait for GEMMs.
//
// In the hierarchical order, network transfers are on stream(0). stream(1) waits for these
// transfers, so that only work that needs their data waits for the network. Forwarded blocks and
// GEMMs are on the other streams, which first execute `synchronize stream(1)`.
//
// Copies may also share a stream (placement=shared, as in the `batched` and `coalesced` presets).
// Each of these serialized copies uses the full link bandwidth, and the first block arrives after
// one copy instead of after all copies. A copy would delay any ready signal queued after it, so if
// there are at least three streams, ready signals use a separate stream, which waits for no data:
//
//   set_current_stream stream(1)
//   %r = p2p recv %block from (rank + %i) mod 8 via %h
//   set_current_stream stream(0)
//   %s = p2p send %own to (rank - %i) mod 8 via %h
//   wait %s
//   set_current_stream stream(2 + %i mod 2)
//   wait %r
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/emit.h"
#include "lowering/passes/passes.h"
#include "lowering/stages/gather_order.h"
#include "lowering/stages/host_streams.h"
#include "lowering/stages/transfers.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

class Assigner : StreamPlacer {
public:
  using StreamPlacer::StreamPlacer;

  /// `main` is the caller's stream.
  void run(StreamRef main) {
    if (stage_.isReduction() && stage_.movesByPairs())
      assignReduction();
    else
      assignSteps();
    forkAndJoin(main, stage_.ownStream ? *stage_.ownStream : stage_.top(), stage_.top());
    if (stage_.gather && !stage_.chunkLoop)
      forkAndJoin(main, *stage_.gather, *stage_.gather);
  }

private:
  using Placement = schedule::Placement;

  /// Emits a fork before the top-level node `first`, and a join after the top-level node `last`.
  /// The fork must be a separate loop: if a later step synchronized with the caller's stream, it
  /// would also wait for all steps that had already joined.
  void forkAndJoin(StreamRef main, Op &first, Op &last) {
    Block &body = body_;
    builder_.insertBefore(body, first);
    builder_.setCurrentStream(loopOverStreams());
    builder_.synchronize(main);
    builder_.insertAfter(body, last);
    builder_.setCurrentStream(main);
    builder_.synchronize(loopOverStreams());
  }

  /// Emits `for %j in 0 .. streams`, sets the insertion point inside, and returns stream(%j).
  StreamRef loopOverStreams() {
    ForOp *loop = builder_.forLoop(local("j"), constant(0), constant(stage_.streams));
    builder_.insertAtEnd(loop->body);
    return {nullptr, loop->index};
  }

  /// Assigns the streams of a stage that is not a reduction with point-to-point transfers.
  void assignSteps() {
    const bool isChosen = stage_.moves() && streams_ > 1;
    const Placement placement = isChosen ? stage_.config.placement() : Placement::Each;
    first_ = stage_.transferStreams = countTransferStreams(placement);
    stage_.streams = first_ + std::min(streams_ - first_, countPieces());
    if (stage_.ownFirst)
      stage_.ownStream = use(body_, stage_.ownFirst->getIterator(), turn(constant(0)));
    Block &body = stage_.stepBody();
    if (stage_.isHierarchical())
      HostStreams(state_, stage_, first_).assignGather();
    else if (placement == Placement::Shared)
      assignSharedStep(body);
    else if (placement == Placement::Ring) {
      use(body, afterTransfers(body), stepStream(), numbered(0));
      use(body, body.begin(), numbered(0));
    } else
      use(body, body.begin(), stepStream());
  }

  int64_t countTransferStreams(Placement placement) const {
    if (stage_.isHierarchical())
      return std::min<int64_t>(placement == Placement::Shared ? 4 : 2, streams_ - 1);
    // A group sends its ready signals before its first copy.
    const bool postsEach = stage_.config.posting() == schedule::Posting::Each;
    if (placement == Placement::Shared && postsEach && streams_ > 2)
      return 2;
    return placement == Placement::Each ? 0 : 1;
  }

  /// Ready signals, and waits for peers to read data, use stream(0). Sums, and waits for their
  /// addends, use stream(1). Copies use stream(2) if they share a stream. In a ring, stream(1)
  /// is reserved for copies, if there are any. A second shot adds two streams: one sends or fetches
  /// sums, and the other waits for the peers' sums and copies them. GEMMs use the remaining streams
  /// round-robin, and do not wait for the streams above.
  void assignReduction() {
    const int64_t forHosts = stage_.isHierarchical() ? 2 : 0;
    const bool isShared = stage_.config.placement() == Placement::Shared;
    const bool addsAtPeers =
        stage_.isRing() && stage_.config.partials() == schedule::Partials::Peer;
    const int64_t others = forHosts + (isShared ? 3 : addsAtPeers ? 1 : 2);
    first_ = std::min(others + (stage_.isTwoShot() ? 2 + forHosts : 0), streams_ - 1);
    stage_.transferStreams = first_;
    stage_.streams = streams_;
    if (stage_.isHierarchical())
      return HostStreams(state_, stage_, first_).assignReduction(others);
    if (stage_.isRing()) {
      assignRing();
    } else {
      const StreamRef gemms = partStream(true);
      assign(stage_.loop->body,
             exchange(special(1), isShared && first_ >= 3 ? special(2) : gemms, gemms));
      if (stage_.chunkLoop)
        assignOwnPart();
    }
    if (stage_.gather)
      assignSumGather(others);
  }

  /// Returns the stream for sums: stream(1) or, in a ring, the stream for the last step's GEMM.
  StreamRef sumStream() {
    if (!stage_.isRing())
      return special(1);
    const Scalar *steps = constant(stage_.steps), *one = constant(1);
    return turn(
        scalars_.add(scalars_.mul(stage_.chunkLoop->index, steps), scalars_.sub(steps, one)));
  }

  /// Transfers sums on stream(gathers), and consumes them on the next stream. If the sums are
  /// fetched, the copy of this rank's rows follows the gather of the peers' rows.
  void assignSumGather(int64_t gathers) {
    const bool isGet = stage_.sumProtocol() == Protocol::Get;
    const StreamRef signals = special(0), sums = sumStream(), moves = special(gathers),
                    copies = special(gathers + 1);
    assign(stage_.gather->body,
           {.ready = signals,
            .sends = sums,
            .copies = moves,
            .arrivals = isGet ? moves : copies,
            .reads = signals,
            .computes = copies,
            .beforeSends = stage_.chunkLoop ? std::optional(sums) : std::nullopt});
    if (stage_.chunkLoop && isGet)
      useForCopyOfSum(copies, sums);
  }

  /// Returns the stream for a GEMM of the current chunk: the GEMM of a step if `isStep`, otherwise
  /// the GEMM of the local rows.
  StreamRef partStream(bool isStep) {
    const int64_t each = stage_.isScattered() ? stage_.steps : 1;
    const Scalar *number = constant(0);
    if (stage_.chunkLoop)
      number = scalars_.mul(stage_.chunkLoop->index, constant(each));
    if (stage_.isScattered() || !stage_.chunkLoop)
      number = scalars_.add(number, isStep ? scalars_.sub(stage_.loop->index, constant(1))
                                           : constant(each - 1));
    return turn(number);
  }

  /// In a ring, each GEMM's stream waits for the GEMM's addend. Copies use stream(1), so that
  /// forwarding a sum waits only for the GEMM that computes it.
  void assignRing() {
    const Scalar *base = scalars_.mul(stage_.chunkLoop->index, constant(stage_.steps));
    const bool isCopied = stage_.config.partials() == schedule::Partials::Local;
    auto exchangeIn = [&](const Scalar *step) {
      const StreamRef gemms = turn(scalars_.add(base, scalars_.sub(step, constant(1))));
      return exchange(turn(scalars_.add(base, step)), isCopied ? special(1) : gemms, gemms);
    };
    Block &around = stage_.chunkLoop->body;
    assign(around, stage_.loop->getIterator(), exchangeIn(constant(1)));
    assign(stage_.loop->body, exchangeIn(stage_.loop->index));
    use(around, stage_.lastGemm->getIterator(), sumStream());
  }

  /// Assigns the GEMM for the local rows, the subsequent sum, and the sum's pointwise functions.
  void assignOwnPart() {
    Block &body = stage_.chunkLoop->body;
    const StreamRef gemms = partStream(false);
    for (Op &op : body)
      if (isGemm(op))
        use(body, op.getIterator(), gemms);
    use(body, stage_.sum->getIterator(), special(1), gemms);
  }

  /// Counts the work units: chunks or, in a geometric stage, the GEMMs that merge-gemms will emit.
  int64_t countPieces() {
    if (stage_.isGeometric()) {
      const GatherOrder order(scalars_, stage_.config.order(), stage_.steps);
      return 1 + static_cast<int64_t>(order.runs(stage_.halvesLastGemm()).size());
    }
    if (stage_.isHierarchical())
      return (stage_.hosts() - 1 + stage_.tailSplit) * stage_.chunks * stage_.ranksPerHost;
    return (stage_.loop->end->value() - firstStep() + stage_.tailSplit - 1) * stage_.chunks;
  }

  /// Returns the number of the first step, which uses the first stream for GEMMs.
  int64_t firstStep() const { return stage_.ownFirst ? 0 : stage_.loop->begin->value(); }

  /// Returns the stream for a step or, if the step is split, for one of its chunks.
  StreamRef stepStream() {
    const Scalar *step = scalars_.sub(stage_.loop->index, constant(firstStep()));
    const Scalar *number = scalars_.mul(step, constant(stage_.chunks));
    if (stage_.chunkLoop)
      number = scalars_.add(number, stage_.chunkLoop->index);
    return turn(number);
  }

  void assignSharedStep(Block &body) {
    const StreamRef copies = numbered(0), readySignals = numbered(first_ - 1);
    const StreamRef gemms = stepStream();
    for (Op &op : llvm::make_early_inc_range(body)) {
      auto *transfer = llvm::dyn_cast<P2POp>(&op);
      if (!transfer)
        continue;
      use(body, op.getIterator(), copiesHere(*transfer) ? copies : readySignals);
      if (copiesHere(*transfer) && isSend(*transfer))
        body.splice(std::next(op.getIterator()), body, waitFor(body, *transfer));
    }
    use(body, behindLastTransfer(body), gemms);
  }

  static Block::iterator waitFor(Block &body, const P2POp &transfer) {
    return llvm::find_if(body, [&](const Op &op) {
      const auto *wait = llvm::dyn_cast<WaitOp>(&op);
      return wait && wait->request == &transfer.result;
    });
  }

  /// Returns the position after the last transfer or, if it is a pushed send, after its wait.
  static Block::iterator behindLastTransfer(Block &body) {
    auto at = body.end();
    while (!llvm::isa<P2POp>(*std::prev(at)))
      --at;
    const auto &last = *llvm::cast<P2POp>(&*std::prev(at));
    const bool hasWait = at != body.end() && at == waitFor(body, last);
    return hasWait && copiesHere(last) && isSend(last) ? std::next(at) : at;
  }

  /// Returns the position after the last node in a step that transfers data or waits for data.
  static Block::iterator afterTransfers(Block &body) {
    auto at = body.end();
    while (!llvm::isa<WaitOp>(*std::prev(at)) && !llvm::isa<IfOp>(*std::prev(at)))
      --at;
    return at;
  }
};

} // namespace

bool assignStreams(LoweringState &state) {
  Value *main = nullptr;
  for (Stage &stage : state.stages) {
    if (!stage.loop || (stage.moves() && stage.config.placement() == schedule::Placement::Caller))
      continue;
    if (!main) {
      ProgramBuilder builder(*state.program);
      insertAfterPreamble(builder);
      builder.setLocation(stage.location());
      main = builder.getCurrentStream(state.names.global("main"));
    }
    Assigner(state, stage).run({main, nullptr});
  }
  return main != nullptr;
}

} // namespace braid
