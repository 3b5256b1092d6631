//===- lowering/stages/sum_gather.cpp - the second shot of an all-reduce ----------------------===//

#include "lowering/stages/sum_gather.h"

#include "lowering/emit.h"
#include "lowering/stages/block_rows.h"
#include "lowering/stages/gather_order.h"
#include "lowering/stages/reduced_rows.h"

namespace braid {
namespace {

class GatherInserter {
public:
  GatherInserter(LoweringState &state, Stage &stage, Value *handles)
      : state_(state), stage_(stage), scalars_(state.program->scalars()),
        builder_(builderFor(state)), handles_(handles) {}

  void run() {
    builder_.setLocation(stage_.location());
    joinResult();
    if (stage_.config.protocol() == Protocol::Put)
      push();
    else
      fetch();
  }

private:
  void joinResult() {
    builder_.insertBefore(state_.program->body(), *stage_.first);
    result_ = joinRows(state_, builder_, stage_, stage_.gemms.front().dst);
  }

  void push() {
    formLoop();
    Value *slot =
        selectBlock(state_, builder_, stage_, state_.names.local("sum_slot"), stage_.sums, from_);
    Value *received = builder_.receive(state_.names.local("r"), slot, from_, handles_);
    Value *sent = builder_.send(state_.names.local("s"), stage_.sum->dst, to_, handles_);
    builder_.wait(sent);
    builder_.wait(received);
    builder_.set(selectRows(), slot);
  }

  void fetch() {
    Value *result = stage_.sum->dst;
    stage_.sum->dst = selectOwn();
    formLoop();
    Value *sent = builder_.send(state_.names.local("s"), stage_.sum->dst, to_, handles_);
    Value *received = builder_.receive(state_.names.local("r"), selectRows(), from_, handles_);
    builder_.wait(received);
    builder_.wait(sent);
    builder_.insertAfter(*around_, *stage_.gather);
    builder_.set(result, stage_.sum->dst);
  }

  /// Of the buffer that peers reach, which has the own rows alone.
  Value *selectOwn() {
    builder_.insertBefore(*around_, *stage_.sum);
    return selectBlock(state_, builder_, stage_, name("mine"), stage_.sums, scalars_.constant(0),
                       scalars_.rank());
  }

  void formLoop() {
    builder_.insertAfter(*around_, *stage_.sum);
    stage_.gather = builder_.forLoop(state_.names.local("i"), scalars_.constant(1),
                                     scalars_.constant(stage_.steps));
    const GatherOrder order(scalars_, schedule::Order::Shift, stage_.steps);
    to_ = order.source(stage_.gather->index);
    from_ = order.target(stage_.gather->index);
    builder_.insertAtEnd(stage_.gather->body);
  }

  /// Where the result has the other's sums.
  Value *selectRows() {
    return selectReduced(state_, builder_, stage_, state_.names.local("theirs"), result_, from_,
                         from_);
  }

  std::string name(const char *wanted) {
    return stage_.chunkLoop ? state_.names.local(wanted) : state_.names.global(wanted);
  }

  LoweringState &state_;
  Stage &stage_;
  ScalarContext &scalars_;
  ProgramBuilder builder_;
  Value *handles_;
  Block *around_ = stage_.chunkLoop ? &stage_.chunkLoop->body : &state_.program->body();
  Value *result_ = nullptr;
  const Scalar *to_ = nullptr, *from_ = nullptr;
};

} // namespace

void allocateSums(LoweringState &state, Stage &stage, ProgramBuilder &builder) {
  const FusionTensor &result = *resultOf(*stage.gemms.front().node);
  Shape shape = partShape(state.fusion, stage);
  shape.insert(shape.begin(), stage.config.protocol() == Protocol::Put ? stage.steps : 1);
  stage.sums = builder.allocate(state.names.global(result.name + "_sums"), MemorySpace::Symmetric,
                                builder.tensorType(result.type.dtype, shape));
}

void insertSumGather(LoweringState &state, Stage &stage, Value *handles) {
  GatherInserter(state, stage, handles).run();
}

} // namespace braid
