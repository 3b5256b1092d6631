//===- lowering/stages/reduction.cpp - partial results that are summed ------------------------===//

#include "lowering/stages/reduction.h"

#include "lowering/emit.h"
#include "lowering/stages/block_rows.h"
#include "lowering/stages/gather_order.h"

#include "llvm/ADT/Twine.h"

namespace braid {
namespace {

/// The rows of an all-reduce are one axis, so that chunks may end wherever.
bool joinsLeadingAxes(const LoweringState &state, const Stage &stage) {
  return !stage.isScattered() && (state.fusion.unevenRows(stage.operand->type) ||
                                  contractionOf(*stage.gemms.front().node).first == 2);
}

/// What one rank makes for another: its rows where they are scattered, else all.
Shape partShape(const LoweringState &state, const Stage &stage) {
  Shape shape = state.fusion.localShape(resultOf(*stage.gemms.front().node)->type);
  const bool joins = joinsLeadingAxes(state, stage);
  if (!stage.isScattered() && !joins)
    return shape;
  const std::optional<UnevenRows> uneven = state.fusion.unevenRows(stage.operand->type);
  if (joins)
    shape[1] = uneven ? uneven->total : shape[0] * shape[1];
  shape.erase(shape.begin());
  return shape;
}

class ReductionFormer {
public:
  ReductionFormer(LoweringState &state, Stage &stage)
      : state_(state), stage_(stage), gemm_(stage.gemms.front()),
        scalars_(state.program->scalars()), builder_(builderFor(state)),
        uneven_(state.fusion.unevenRows(stage.operand->type)) {}

  void run() {
    builder_.setLocation(stage_.location());
    builder_.insertAtEnd(state_.program->body());
    const size_t before = state_.program->body().size();
    takeOwnRight();
    if (!stage_.isScattered())
      flatten();
    if (stage_.multipliesWhole())
      formWhole();
    else
      formChunks();
    stage_.first = &*std::next(state_.program->body().begin(), before);
  }

private:
  /// Of a second operand that is whole, this rank contracts its own part.
  void takeOwnRight() {
    const Contraction contraction = contractionOf(*gemm_.node);
    const FusionTensor &second = *operandsOf(*gemm_.node)[1];
    right_ = gemm_.right;
    if (second.type.axes[contraction.second].kind != AxisKind::DIDx)
      right_ = builder_.slice(state_.names.global(second.name + "_own"), gemm_.right,
                              scalars_.rank(), scalars_.add(scalars_.rank(), scalars_.constant(1)));
  }

  /// Rows of an all-reduce are cut wherever chunks end, so they are one axis.
  void flatten() {
    rows_ = stage_.input;
    sum_ = gemm_.dst;
    if (!joinsLeadingAxes(state_, stage_))
      return;
    if (uneven_) {
      rows_ = existingRows(state_, builder_, uneven_, rows_);
      sum_ = existingRows(state_, builder_, uneven_, sum_);
      return;
    }
    rows_ = builder_.flatten(state_.names.global((stage_.name() + "_rows").str()), rows_);
    sum_ = builder_.flatten(state_.names.global(gemm_.dst->name + "_rows"), sum_);
  }

  void formChunks() {
    stage_.chunkLoop =
        builder_.forLoop(state_.names.local("c"), scalars_.constant(0), scalars_.constant(1));
    builder_.insertAtEnd(stage_.chunkLoop->body);
    if (!stage_.isScattered())
      multiplyOwn(rows_);
    formLoop();
    if (stage_.isScattered()) {
      multiplyPart();
      builder_.insertAtEnd(stage_.chunkLoop->body);
      multiplyOwn(select(state_.names.local("own_block"), stage_.input, scalars_.rank()));
    }
    addParts();
  }

  /// One GEMM of all rows, then all transfers. The own part goes to its slot meanwhile: behind what
  /// the caller's stream pushes, or else ahead of the streams that do.
  void formWhole() {
    const bool isPushedHere = stage_.config.placement() == schedule::Placement::Caller;
    if (stage_.isScattered()) {
      Value *sent = existingRows(state_, builder_, uneven_, stage_.sent);
      multiply(sent, existingRows(state_, builder_, uneven_, stage_.input));
    } else {
      multiplyOwn(rows_);
    }
    if (stage_.isScattered() && !isPushedHere)
      copyOwn();
    formLoop();
    if (stage_.isScattered())
      stage_.mine = select(state_.names.local("part"), stage_.sent, peer());
    builder_.insertAtEnd(state_.program->body());
    if (stage_.isScattered() && isPushedHere)
      copyOwn();
    addParts();
  }

  void copyOwn() {
    Value *made = select(name("own"), stage_.sent, scalars_.rank());
    builder_.set(select(name("own_part"), stage_.parts, scalars_.rank()), made);
  }

  void formLoop() {
    stage_.loop = builder_.forLoop(state_.names.local("i"), scalars_.constant(1),
                                   scalars_.constant(stage_.steps));
    if (stage_.isScattered())
      builder_.insertAtEnd(stage_.loop->body);
  }

  void multiplyPart() {
    stage_.block = select(state_.names.local("block"), stage_.input, peer());
    stage_.mine = select(state_.names.local("part"), stage_.sent, peer());
    multiply(stage_.mine, stage_.block);
  }

  void multiplyOwn(Value *rows) {
    const std::string as =
        stage_.multipliesWhole() ? name("own_part") : state_.names.local("own_part");
    Value *part = select(as, stage_.parts, scalars_.rank());
    multiply(part, rows);
    if (!stage_.isScattered())
      stage_.mine = part;
  }

  /// The bias is added once, by the sum.
  void multiply(Value *dst, Value *rows) {
    Gemm plain = gemm_;
    plain.right = right_;
    plain.bias = nullptr;
    emitGemm(builder_, plain, dst, rows);
  }

  void addParts() {
    const Scalar *first = scalars_.constant(0), *rank = scalars_.rank();
    Value *dst = stage_.isScattered() ? selectBlock(state_, builder_, stage_,
                                                    state_.names.local(gemm_.dst->name + "_sum"),
                                                    gemm_.dst, first, rank)
                                      : sum_;
    const Scalar *rows = rowsOfBlock(scalars_, stage_, rank);
    stage_.sum = builder_.sum(dst, stage_.parts, rows ? first : nullptr, rows, gemm_.bias);
  }

  /// The rows of that rank, of a tensor that holds those of all.
  Value *select(const std::string &as, Value *tensor, const Scalar *rank) {
    return selectBlock(state_, builder_, stage_, as, tensor, rank);
  }

  /// Whose rows a step multiplies.
  const Scalar *peer() {
    return GatherOrder(scalars_, stage_.config.order(), stage_.steps).source(stage_.loop->index);
  }

  std::string name(llvm::StringRef what) {
    return state_.names.global((gemm_.dst->name + "_" + what).str());
  }

  LoweringState &state_;
  Stage &stage_;
  const Gemm &gemm_;
  ScalarContext &scalars_;
  ProgramBuilder builder_;
  const std::optional<UnevenRows> uneven_; ///< of the operand
  Value *right_ = nullptr;
  Value *rows_ = nullptr, *sum_ = nullptr; ///< of an all-reduce
};

} // namespace

void allocateParts(LoweringState &state, Stage &stage, ProgramBuilder &builder) {
  const FusionNode &node = *stage.gemms.front().node;
  Shape shape = partShape(state, stage);
  shape.insert(shape.begin(), stage.steps);
  const TensorType type = builder.tensorType(partialType(node), shape);
  auto allocate = [&](const char *what) {
    return builder.allocate(state.names.global(resultOf(node)->name + what), MemorySpace::Device,
                            type);
  };
  builder.setLocation(stage.location());
  stage.parts = allocate("_parts");
  if (stage.isScattered())
    stage.sent = allocate("_sent");
}

void formReduction(LoweringState &state, Stage &stage) { ReductionFormer(state, stage).run(); }

Value *shareParts(const Stage &stage) {
  const bool isGet = stage.config.protocol() == Protocol::Get;
  Value *reached = isGet && stage.sent ? stage.sent : stage.parts;
  llvm::cast<AllocateOp>(reached->definition)->space = MemorySpace::Symmetric;
  return reached;
}

void insertReductionTransfers(LoweringState &state, Stage &stage, Value *handles) {
  ScalarContext &scalars = state.program->scalars();
  ProgramBuilder builder = builderFor(state);
  builder.setLocation(stage.location());
  Block &body = stage.loop->body;
  const GatherOrder order(scalars, stage.config.order(), stage.steps);
  const Scalar *to = order.source(stage.loop->index), *from = order.target(stage.loop->index);
  const bool isGet = stage.config.protocol() == Protocol::Get;
  Value *received = nullptr, *sent = nullptr;
  auto receive = [&] {
    Value *slot = selectBlock(state, builder, stage, state.names.local("slot"), stage.parts, from,
                              scalars.rank());
    received = builder.receive(state.names.local("r"), slot, from, handles);
  };
  // The receiver of what is pushed gives its ready signal first: nothing in the step delays it.
  builder.setInsertionPoint(body, body.begin());
  if (!isGet)
    receive();
  builder.insertAtEnd(body);
  sent = builder.send(state.names.local("s"), stage.mine, to, handles);
  if (isGet)
    receive();
  // Each rank sends before it waits for what it receives, so none waits for another's wait.
  builder.wait(isGet ? received : sent);
  builder.wait(isGet ? sent : received);
}

} // namespace braid
