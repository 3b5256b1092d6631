//===- lowering/passes/assign_streams.cpp - assigns steps to streams --------------------------===//
//
// Assigns steps and chunks to streams round-robin. Each step or chunk forks from the caller's
// stream and joins it again, which is always correct, but slow: steps wait for all previous steps.
// hoist-syncs then moves the forks and joins to the ends of the pipeline.
//
//   set_current_stream stream(%i mod 4)
//   synchronize %main
//   ...
//   set_current_stream %main
//   synchronize stream(%i mod 4)
//
// In a ring, a block is forwarded as soon as it arrives. To keep forwarding from waiting for a
// GEMM, the transfers of preset `ring` share stream(0), and GEMMs use the other streams.
//
// In the hierarchical order, network transfers are on stream(0). stream(1) waits for these
// transfers, so that only work that needs their data waits for the network.
// Forwarded blocks and GEMMs are on the other streams, and begin with `synchronize stream(1)`.
//
// Copies may also share a stream (placement=shared, as in presets `batched` and `coalesced`).
// Serialized copies each get the full link bandwidth, and the first block arrives after one copy
// instead of after all copies. A ready signal queued behind a copy would be late, so if there are
// at least three streams, ready signals have a separate stream, which waits for no data:
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

class Assigner {
public:
  Assigner(LoweringState &state, Value *main)
      : state_(state), scalars_(state.program->scalars()),
        builder_(builderFor(state)), main_{main, nullptr} {}

  void run(Stage &stage) {
    choose(stage);
    stage.transferStreams = first_;
    if (stage.isReduction() && stage.movesByPairs())
      return assignReduction(stage);
    stage.streams = first_ + std::min(stage.config.streams() - first_, countPieces(stage));
    builder_.setLocation(stage.location());
    if (stage.ownFirst)
      assignOwnStep(stage);
    if (stage.isHierarchical())
      HostStreams(state_, stage, main_.named, first_).assignGather();
    else if (placement_ == Placement::Ring)
      assignRingStep(stage);
    else if (placement_ == Placement::Shared)
      assignSharedStep(stage);
    else
      assignStep(stage);
  }

private:
  using Placement = schedule::Placement;

  void choose(const Stage &stage) {
    available_ = stage.config.streams();
    const bool isChosen = stage.moves() && available_ > 1;
    placement_ = isChosen ? stage.config.placement() : Placement::Each;
    if (stage.isHierarchical()) {
      const int64_t others = placement_ == Placement::Shared ? 4 : 2;
      first_ = std::min(others, available_ - 1);
      return;
    }
    first_ = placement_ == Placement::Each ? 0 : 1;
    // A group sends its ready signals before its first copy.
    const bool postsEach = stage.config.posting() == schedule::Posting::Each;
    if (placement_ == Placement::Shared && postsEach && available_ > 2)
      first_ = 2;
  }

  /// Ready signals, and waits for peers to read data, use stream(0). Sums, and waits for their
  /// addends, use stream(1). Copies use stream(2) if they share a stream. In a ring, stream(1)
  /// is reserved for copies, if there are any. A second shot adds two streams: one sends or fetches
  /// sums, and the other waits for the peers' sums and copies them. GEMMs use the remaining streams
  /// round-robin, and do not wait for the streams above.
  void assignReduction(Stage &stage) {
    const int64_t forHosts = stage.isHierarchical() ? 2 : 0;
    const bool isShared = stage.config.placement() == Placement::Shared;
    const bool addsAtPeers =
        stage.addsInGemms() && stage.config.partials() == schedule::Partials::Peer;
    const int64_t others = forHosts + (isShared ? 3 : addsAtPeers ? 1 : 2);
    first_ = std::min(others + (stage.isTwoShot() ? 2 + forHosts : 0), available_ - 1);
    stage.transferStreams = first_;
    stage.streams = available_;
    builder_.setLocation(stage.location());
    if (stage.isHierarchical())
      return HostStreams(state_, stage, main_.named, first_).assignReduction(others);
    if (stage.addsInGemms()) {
      assignRing(stage);
    } else {
      assignReductionStep(stage);
      if (stage.chunkLoop)
        assignOwnPart(stage);
    }
    if (stage.gather)
      assignSumGather(stage, others);
  }

  /// Returns the stream for sums: stream(1) or, in a ring, the stream for the last step's GEMM.
  StreamRef sumStream(const Stage &stage) {
    if (!stage.addsInGemms())
      return special(1);
    const Scalar *steps = scalars_.constant(stage.steps), *one = scalars_.constant(1);
    return streamFor(
        scalars_.add(scalars_.mul(stage.chunkLoop->index, steps), scalars_.sub(steps, one)));
  }

  /// Transfers sums on stream(gathers), and consumes them on the next stream.
  void assignSumGather(Stage &stage, int64_t gathers) {
    Block &body = stage.gather->body;
    const StreamRef signals = special(0), sums = sumStream(stage), moves = special(gathers),
                    copies = special(gathers + 1);
    for (Op &op : llvm::make_early_inc_range(body)) {
      std::optional<StreamRef> stream = gatherStreamOf(op, signals, sums, moves, copies);
      if (!stream)
        continue;
      builder_.insertBefore(body, op);
      fork(stage, body, *stream);
      if (isSend(op) && stage.chunkLoop && *stream != sums)
        builder_.synchronize(sums);
    }
    builder_.insertAtEnd(body);
    join(stage, body, distinct({signals, sums, moves, copies}));
    if (stage.chunkLoop && stage.sumProtocol() == Protocol::Get)
      assignCopyOfSum(stage, sums, copies);
  }

  /// Assigns the copy of this rank's rows, which follows the gather of the peers' rows.
  void assignCopyOfSum(Stage &stage, StreamRef sums, StreamRef copies) {
    Block &body = stage.chunkLoop->body;
    auto isSet = [](const Op &op) { return llvm::isa<SetOp>(op); };
    builder_.setInsertionPoint(body, std::find_if(stage.gather->getIterator(), body.end(), isSet));
    fork(stage, body, copies);
    if (copies != sums)
      builder_.synchronize(sums);
    builder_.insertAtEnd(body);
    join(stage, body, {copies});
  }

  static std::optional<StreamRef> gatherStreamOf(const Op &op, StreamRef signals, StreamRef sums,
                                                 StreamRef moves, StreamRef copies) {
    const P2POp *awaited = awaitedTransfer(op);
    if (const auto *transfer = llvm::dyn_cast<P2POp>(&op))
      return copiesHere(*transfer) ? moves : isSend(op) ? sums : signals;
    if (awaited)
      return copiesHere(*awaited) ? moves : isSend(*awaited) ? signals : copies;
    return llvm::isa<SetOp>(op) ? std::optional(copies) : std::nullopt;
  }

  /// Returns stream(number), or the last transfer stream if `number` exceeds it.
  StreamRef special(int64_t number) const {
    return numbered(std::min(number, std::max<int64_t>(first_ - 1, 0)));
  }

  /// Returns the stream for a chunk's GEMM: the step's if `isStep`, else the one for local rows.
  StreamRef partStream(const Stage &stage, bool isStep) {
    const int64_t each = stage.isScattered() ? stage.steps : 1;
    const Scalar *number = scalars_.constant(0);
    if (stage.chunkLoop)
      number = scalars_.mul(stage.chunkLoop->index, scalars_.constant(each));
    if (stage.isScattered() || !stage.chunkLoop)
      number = scalars_.add(number, isStep ? scalars_.sub(stage.loop->index, scalars_.constant(1))
                                           : scalars_.constant(each - 1));
    return streamFor(number);
  }

  /// In a ring, each GEMM's stream waits for the GEMM's addend. Copies use stream(1), so that
  /// forwarding a sum waits only for the GEMM that computes it.
  void assignRing(Stage &stage) {
    const Scalar *base = scalars_.mul(stage.chunkLoop->index, scalars_.constant(stage.steps));
    const bool isCopied = stage.config.partials() == schedule::Partials::Local;
    auto assign = [&](Block &body, Block::iterator end, const Scalar *step) {
      const StreamRef next = streamFor(scalars_.add(base, step));
      const StreamRef gemms =
          streamFor(scalars_.add(base, scalars_.sub(step, scalars_.constant(1))));
      assignExchange(stage, body, end, {special(0), next, isCopied ? special(1) : gemms, gemms});
    };
    Block &around = stage.chunkLoop->body;
    assign(around, stage.loop->getIterator(), scalars_.constant(1));
    assign(stage.loop->body, stage.loop->body.end(), stage.loop->index);
    const StreamRef sums = sumStream(stage);
    builder_.insertBefore(around, *stage.lastGemm);
    fork(stage, around, sums);
    builder_.insertAfter(around, stage.sum ? *withFunctions(*state_.program, *stage.sum).back()
                                           : *stage.lastGemm);
    join(stage, around, {sums});
  }

  void assignReductionStep(Stage &stage) {
    const bool isShared = placement_ == Placement::Shared && first_ >= 3;
    const StreamRef gemms = partStream(stage, true);
    Block &body = stage.loop->body;
    assignExchange(stage, body, body.end(),
                   {special(0), special(1), isShared ? special(2) : gemms, gemms});
  }

  /// The streams used by one step of a reduction.
  struct StepStreams {
    StreamRef signals, sums, copies, gemms;
  };

  /// Assigns the nodes in `body` before `end`: a GEMM, the send of its result, and a receive.
  void assignExchange(Stage &stage, Block &body, Block::iterator end, const StepStreams &streams) {
    for (Op &op : llvm::make_early_inc_range(llvm::make_range(body.begin(), end))) {
      std::optional<StreamRef> stream = streamOf(op, streams);
      if (!stream)
        continue;
      builder_.insertBefore(body, op);
      fork(stage, body, *stream);
      // A send reads the result of a GEMM, which may be on another stream.
      if (isSend(op) && *stream != streams.gemms)
        builder_.synchronize(streams.gemms);
    }
    builder_.setInsertionPoint(body, end);
    join(stage, body, distinct({streams.signals, streams.sums, streams.copies, streams.gemms}));
  }

  void assignGemm(Stage &stage, Block &body, Op &gemm, StreamRef stream) {
    builder_.insertBefore(body, gemm);
    fork(stage, body, stream);
    builder_.insertAfter(body, gemm);
    join(stage, body, {stream});
  }

  static bool isSend(const Op &op) {
    const auto *transfer = llvm::dyn_cast<P2POp>(&op);
    return transfer && transfer->direction == Direction::Send;
  }

  /// Returns the stream for a node in a step, or std::nullopt if the node stays on the previous
  /// node's stream.
  static std::optional<StreamRef> streamOf(const Op &op, const StepStreams &streams) {
    if (const auto *transfer = llvm::dyn_cast<P2POp>(&op))
      return copiesHere(*transfer) || isSend(op) ? streams.copies : streams.signals;
    if (const P2POp *awaited = awaitedTransfer(op))
      return awaited->direction == Direction::Receive ? streams.sums
             : copiesHere(*awaited)                   ? streams.copies
                                                      : streams.signals;
    if (isGemm(op))
      return streams.gemms;
    return std::nullopt;
  }

  static llvm::SmallVector<StreamRef, 4> distinct(llvm::ArrayRef<StreamRef> streams) {
    llvm::SmallVector<StreamRef, 4> found;
    for (StreamRef stream : streams)
      if (!llvm::is_contained(found, stream))
        found.push_back(stream);
    return found;
  }

  /// Assigns the GEMM for the local rows, the subsequent sum, and the sum's pointwise functions.
  void assignOwnPart(Stage &stage) {
    Block &body = stage.chunkLoop->body;
    const StreamRef sums = special(1), gemms = partStream(stage, false);
    for (Op &op : llvm::make_early_inc_range(body))
      if (isGemm(op))
        assignGemm(stage, body, op, gemms);
    builder_.insertBefore(body, *stage.sum);
    fork(stage, body, sums);
    if (sums != gemms)
      builder_.synchronize(gemms);
    builder_.insertAfter(body, *withFunctions(*state_.program, *stage.sum).back());
    join(stage, body, {sums});
  }

  /// Counts the work units: chunks or, in a geometric stage, the GEMMs that merge-gemms will emit.
  int64_t countPieces(const Stage &stage) {
    if (stage.isGeometric()) {
      const GatherOrder order(scalars_, stage.config.order(), stage.steps);
      return 1 + static_cast<int64_t>(order.runs(stage.halvesLastGemm()).size());
    }
    if (stage.isHierarchical())
      return (stage.hosts() - 1 + stage.tailSplit) * stage.chunks * stage.ranksPerHost;
    return (stage.loop->end->value() - firstStep(stage) + stage.tailSplit - 1) * stage.chunks;
  }

  /// Returns the stream for work unit `number`.
  StreamRef streamFor(const Scalar *number) {
    const int64_t streams = available_ - first_;
    const Scalar *turn =
        streams == 1 ? scalars_.constant(0) : scalars_.mod(number, scalars_.constant(streams));
    return {nullptr, first_ == 0 ? turn : scalars_.add(scalars_.constant(first_), turn)};
  }

  StreamRef numbered(int64_t number) const { return {nullptr, scalars_.constant(number)}; }

  /// Returns the first step, which may be peeled off. It uses the first stream for GEMMs.
  static int64_t firstStep(const Stage &stage) {
    return stage.ownFirst ? 0 : stage.loop->begin->value();
  }

  StreamRef streamFor(const Stage &stage) {
    const Scalar *step = scalars_.sub(stage.loop->index, scalars_.constant(firstStep(stage)));
    const Scalar *number = scalars_.mul(step, scalars_.constant(stage.chunks));
    if (stage.chunkLoop)
      number = scalars_.add(number, stage.chunkLoop->index);
    return streamFor(number);
  }

  void assignOwnStep(Stage &stage) {
    Block &body = state_.program->body();
    StreamRef stream = streamFor(scalars_.constant(0));
    builder_.insertBefore(body, *stage.ownFirst);
    stage.ownStream = fork(stage, body, stream);
    builder_.insertBefore(body, *stage.loop);
    join(stage, body, {stream});
  }

  void assignStep(Stage &stage) {
    Block &body = stage.stepBody();
    StreamRef stream = streamFor(stage);
    builder_.insertBefore(body, body.front());
    fork(stage, body, stream);
    builder_.insertAtEnd(body);
    join(stage, body, {stream});
  }

  void assignRingStep(Stage &stage) {
    Block &body = stage.stepBody();
    StreamRef ring = numbered(0);
    StreamRef stream = streamFor(stage);
    builder_.setInsertionPoint(body, afterTransfers(body));
    fork(stage, body, stream);
    builder_.synchronize(ring);
    builder_.insertBefore(body, body.front());
    fork(stage, body, ring);
    builder_.insertAtEnd(body);
    join(stage, body, {ring, stream});
  }

  void assignSharedStep(Stage &stage) {
    Block &body = stage.stepBody();
    const StreamRef copies = numbered(0), readySignals = numbered(first_ - 1);
    const StreamRef gemms = streamFor(stage);
    for (Op &op : llvm::make_early_inc_range(body)) {
      auto *transfer = llvm::dyn_cast<P2POp>(&op);
      if (!transfer)
        continue;
      builder_.insertBefore(body, op);
      fork(stage, body, copiesHere(*transfer) ? copies : readySignals);
      if (copiesHere(*transfer) && transfer->direction == Direction::Send)
        body.splice(std::next(op.getIterator()), body, waitFor(body, *transfer));
    }
    builder_.setInsertionPoint(body, behindLastTransfer(body));
    fork(stage, body, gemms);
    builder_.insertAtEnd(body);
    join(stage, body, {copies, readySignals, gemms});
  }

  static Block::iterator waitFor(Block &body, const P2POp &transfer) {
    return llvm::find_if(body, [&](const Op &op) {
      const auto *wait = llvm::dyn_cast<WaitOp>(&op);
      return wait && wait->request == &transfer.result;
    });
  }

  /// Returns the position after the last transfer, or after the wait for it if on the same stream.
  static Block::iterator behindLastTransfer(Block &body) {
    auto at = body.end();
    while (!llvm::isa<P2POp>(*std::prev(at)))
      --at;
    const auto &last = *llvm::cast<P2POp>(&*std::prev(at));
    const bool hasWait = at != body.end() && at == waitFor(body, last);
    return hasWait && copiesHere(last) && last.direction == Direction::Send ? std::next(at) : at;
  }

  /// Returns the position after the last node in a step that transfers data or waits for data.
  static Block::iterator afterTransfers(Block &body) {
    auto at = body.end();
    while (!llvm::isa<WaitOp>(*std::prev(at)) && !llvm::isa<IfOp>(*std::prev(at)))
      --at;
    return at;
  }

  Op *fork(Stage &stage, Block &block, StreamRef stream) {
    Op *set = builder_.setCurrentStream(stream);
    stage.syncs.emplace_back(&block, builder_.synchronize(main_));
    return set;
  }

  void join(Stage &stage, Block &block, llvm::ArrayRef<StreamRef> streams) {
    stage.syncs.emplace_back(&block, builder_.setCurrentStream(main_));
    for (StreamRef stream : streams)
      stage.syncs.emplace_back(&block, builder_.synchronize(stream));
  }

  LoweringState &state_;
  ScalarContext &scalars_;
  ProgramBuilder builder_;
  StreamRef main_;
  Placement placement_ = Placement::Each;
  int64_t available_ = 0; ///< streams available to the current stage
  int64_t first_ = 0;     ///< streams below this one carry only transfers
};

} // namespace

bool assignStreams(LoweringState &state) {
  Value *main = nullptr;
  for (Stage &stage : state.stages) {
    if (!stage.loop || (stage.moves() && stage.config.placement() == schedule::Placement::Caller))
      continue;
    if (!main) {
      ProgramBuilder builder = builderFor(state);
      insertAfterPreamble(builder);
      builder.setLocation(stage.location());
      main = builder.getCurrentStream(state.names.global("main"));
    }
    Assigner(state, main).run(stage);
  }
  return main != nullptr;
}

} // namespace braid
