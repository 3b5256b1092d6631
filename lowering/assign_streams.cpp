//===- lowering/assign_streams.cpp - deals steps out to streams ------------------------------===//
//
// Step after step, chunk after chunk, in turn. Each one is wrapped so that it starts after all that
// was issued to the caller's stream and is done before anything later there: correct whatever
// stands around it, and slow. hoist-syncs takes that to the ends of the pipeline.
//
//   set_current_stream stream(%i mod 4)
//   synchronize %main
//   ...
//   set_current_stream %main
//   synchronize stream(%i mod 4)
//
// In a ring a block is forwarded as soon as it is here. So the transfers of `hop` share stream(0),
// the ring stream, and the products follow on the others: forwarding never waits for a product.
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/emit.h"
#include "lowering/passes.h"

namespace braid {
namespace {

class Assigner {
public:
  Assigner(LoweringState &state, Value *main)
      : state_(state), scalars_(state.program->scalars()),
        builder_(builderFor(state)), main_{main, nullptr} {}

  void run(Stage &stage) {
    isRing_ =
        stage.isGather() && state_.options.schedule == Schedule::Hop && state_.options.streams > 1;
    int64_t dealt = state_.options.streams - (isRing_ ? 1 : 0);
    int64_t pieces = (stage.steps - firstStep(stage) + stage.taper - 1) * stage.chunks;
    stage.streams = std::min(dealt, pieces) + (isRing_ ? 1 : 0);
    builder_.setLocation(stage.location());
    if (stage.ownFirst)
      assignOwnStep(stage);
    if (isRing_)
      assignRingStep(stage);
    else
      assignStep(stage);
  }

private:
  /// The stream for the `number`-th piece of work.
  StreamRef streamFor(const Scalar *number) {
    int64_t streams = state_.options.streams;
    if (!isRing_)
      return {nullptr, inTurn(number, streams)};
    return {nullptr, scalars_.add(scalars_.constant(1), inTurn(number, streams - 1))};
  }

  const Scalar *inTurn(const Scalar *number, int64_t streams) {
    return streams == 1 ? scalars_.constant(0) : scalars_.mod(number, scalars_.constant(streams));
  }

  /// The step that gets the first stream: 0, unless that one has nothing to issue.
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
    StreamRef ring{nullptr, scalars_.constant(0)};
    StreamRef stream = streamFor(stage);
    builder_.setInsertionPoint(body, afterTransfers(body));
    fork(stage, body, stream);
    builder_.synchronize(ring);
    builder_.insertBefore(body, body.front());
    fork(stage, body, ring);
    builder_.insertAtEnd(body);
    join(stage, body, {ring, stream});
  }

  /// Behind the last node of a step that moves something or waits for it.
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
  bool isRing_ = false;
};

} // namespace

bool assignStreams(LoweringState &state) {
  Value *main = nullptr;
  for (Stage &stage : state.stages) {
    if (!stage.loop)
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
