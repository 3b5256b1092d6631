//===- lowering/merge_products.cpp - multiplies neighbouring blocks together ------------------===//
//
// The product of a block alone may leave most of the last wave of tiles idle, and every product has
// a beginning and an end. While one product runs, more than one block can arrive. So under
// `doubling` each product takes all blocks that came since the one before, as many as all before it
// together:
//
//   matmul %C_own, %own, %B
//   wait %r_1
//   matmul %outs_1, %block_1, %B               // of rank xor 1
//   wait %r_2
//   wait %r_3
//   %blocks_2 = slice %A_all[(rank xor 2) / 2 * 2 .. (rank xor 2) / 2 * 2 + 2]
//   %outs_2 = slice %C[(rank xor 2) / 2 * 2 .. (rank xor 2) / 2 * 2 + 2]
//   matmul %outs_2, %blocks_2, %B
//
// The order in which blocks are taken (gather_order.h) makes them neighbours on every rank. Chunks
// cut transfers only.
//
// With rows of a wave given, products begin and end where waves do (wave_cuts.h), amid blocks:
//
//   %A_rows = flatten %A_all
//   %C_rows = flatten %C
//   matmul %C_own, %own_rows, %B               // not all of the own block
//   if ... { set %slot, %rest }                // what is left of it, for the products to come
//   wait %r_1
//   %blocks_1 = slice %A_rows[... .. ...]
//   matmul %outs_1, %blocks_1, %B
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/emit.h"
#include "lowering/gather_order.h"
#include "lowering/passes.h"
#include "lowering/transfers.h"
#include "lowering/unrolled_steps.h"
#include "lowering/wave_cuts.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace braid {
namespace {

class Merger {
public:
  Merger(LoweringState &state, Stage &stage)
      : state_(state), stage_(stage), scalars_(state.program->scalars()),
        body_(state.program->body()), builder_(builderFor(state)) {
    const int64_t waveRows = state.options.waveRows;
    if (waveRows == 0 || stage.rows == 0 || !llvm::isPowerOf2_64(uint64_t(stage.steps)))
      return;
    cuts_.emplace(scalars_, stage.steps, stage.rows, waveRows);
    if (!cuts_->movesRows())
      cuts_.reset();
  }

  void run() {
    if (cuts_)
      emitOwnRows();
    const std::vector<UnrolledStep> steps = unrollSteps(state_, stage_);
    int64_t number = 0;
    for (const Run &run : GatherOrder(scalars_, state_.options.schedule, stage_.steps).runs())
      merge(run, ++number,
            llvm::ArrayRef<UnrolledStep>(steps).slice(
                static_cast<size_t>(run.begin - steps.front().number),
                static_cast<size_t>(run.end - run.begin)));
  }

private:
  using Run = GatherOrder::Run;

  /// Puts one product behind the last of `steps`, in place of theirs.
  void merge(const Run &run, int64_t number, llvm::ArrayRef<UnrolledStep> steps) {
    before_ = &*std::next(steps.back().nodes.back()->getIterator());
    builder_.insertBefore(body_, *before_);
    builder_.setLocation(stage_.location());
    if (cuts_ && number == 1 && !isOwnBlockStaged())
      copyOwnRest();
    useStream(streamFor(number));
    moveWaits(steps, Direction::Receive);
    if (cuts_)
      emitRows(number);
    else
      emit(run, number, steps);
    moveWaits(steps, Direction::Send);
    for (const UnrolledStep &step : steps)
      for (Op *op : step.nodes)
        if (llvm::isa<MatmulOp>(op) || llvm::isa<LinearOp>(op))
          body_.erase(op->getIterator());
  }

  void useStream(int64_t stream) {
    builder_.setCurrentStream({nullptr, scalars_.constant(stream)});
  }

  // -- Cut where waves end. --

  /// So that what a step has sent from is in the gathered buffer, too.
  bool isOwnBlockStaged() const { return rootOf(stage_.mine) == rootOf(stage_.whole); }

  Value *rowsOf(Value *tensor) {
    Value *&rows = rows_[tensor];
    if (!rows)
      rows = builder_.flatten(state_.names.global(tensor->name + "_rows"), tensor);
    return rows;
  }

  /// Product `number` of each tensor, on the rows `from` of the operand.
  void emitProductOf(size_t number, Value *from) {
    emitProducts(builder_, stage_, from, [&](const Product &product) {
      const std::string name = product.dst->name + "_" + std::to_string(number);
      return builder_.slice(state_.names.global(name), rowsOf(product.dst), cuts_->begin(number),
                            cuts_->end(number));
    });
  }

  /// In place of the products of the whole own block.
  void emitOwnRows() {
    llvm::SmallVector<Op *, 4> products;
    for (auto at = stage_.ownFirst->getIterator(); &*at != stage_.loop; ++at)
      if (llvm::isa<MatmulOp>(*at) || llvm::isa<LinearOp>(*at))
        products.push_back(&*at);
    builder_.insertBefore(body_, *products.front());
    builder_.setLocation(stage_.location());
    const Scalar *before = cuts_->ownRowsBefore();
    Value *own =
        builder_.slice(state_.names.global(nameInStage(state_, stage_, "own_rows")), stage_.mine,
                       before, scalars_.add(before, scalars_.constant(cuts_->rows(0))));
    emitProductOf(0, own);
    for (Op *op : products)
      body_.erase(op->getIterator());
  }

  /// The own rows that later products take, before those of product 0 and behind them, into their
  /// slot: where promises are made, because those of later steps have time.
  void copyOwnRest() {
    useStream(restStream());
    const Scalar *before = cuts_->ownRowsBefore(), *rows = scalars_.constant(cuts_->rows(0));
    copyOwn("head", scalars_.constant(0), before);
    copyOwn("tail", scalars_.add(before, rows), scalars_.constant(stage_.rows));
  }

  void copyOwn(const std::string &part, const Scalar *begin, const Scalar *end) {
    Value *slots = rowsOf(stage_.whole);
    builder_.insertAtEnd(builder_.ifOp(scalars_.binary(ScalarKind::Lt, begin, end))->thenBlock);
    const std::string name = nameInStage(state_, stage_, part);
    Value *src = builder_.slice(state_.names.global(name), stage_.mine, begin, end);
    const Scalar *slot = cuts_->ownBegin();
    builder_.set(builder_.slice(state_.names.global(name + "_slot"), slots,
                                scalars_.add(slot, begin), scalars_.add(slot, end)),
                 src);
    builder_.insertBefore(body_, *before_);
  }

  int64_t restStream() const { return std::max<int64_t>(stage_.transferStreams - 1, 0); }

  /// Behind the waits of its blocks, on its stream.
  void emitRows(int64_t number) {
    const int64_t stream = streamFor(number);
    // Its blocks reach into later products on other streams.
    for (int64_t later = number + 1; later < products(); ++later)
      if (streamFor(later) != stream && cuts_->reachesBack(size_t(later))) {
        useStream(streamFor(later));
        builder_.synchronize({nullptr, scalars_.constant(stream)});
      }
    useStream(stream);
    if (!isOwnBlockStaged() && stream != restStream() && cuts_->reachesBack(size_t(number)))
      builder_.synchronize({nullptr, scalars_.constant(restStream())});
    emitProductOf(size_t(number),
                  builder_.slice(state_.names.global(nameInStage(state_, stage_, "blocks") + "_" +
                                                     std::to_string(number)),
                                 rowsOf(stage_.whole), cuts_->begin(size_t(number)),
                                 cuts_->end(size_t(number))));
  }

  int64_t products() const { return 1 + llvm::Log2_64(uint64_t(stage_.steps)); }

  int64_t streamFor(int64_t number) const {
    return stage_.transferStreams + number % (stage_.streams - stage_.transferStreams);
  }

  /// Those for blocks come before the product. Those for a peer that reads (get) come behind it; a
  /// copy of its own is waited for on the stream that makes it.
  void moveWaits(llvm::ArrayRef<UnrolledStep> steps, Direction direction) {
    for (const UnrolledStep &step : steps)
      for (Op *op : step.nodes) {
        const P2POp *transfer = awaitedTransfer(*op);
        const bool isReceive = direction == Direction::Receive;
        if (transfer && transfer->direction == direction && (isReceive || !copiesHere(*transfer)))
          body_.splice(before_->getIterator(), body_, op->getIterator());
      }
  }

  void emit(const Run &run, int64_t number, llvm::ArrayRef<UnrolledStep> steps) {
    const std::string suffix = "_" + std::to_string(number);
    auto alias = [&](const std::string &name, Value *tensor) {
      const std::string unique = state_.names.global(name + suffix);
      if (steps.size() == 1)
        return builder_.select(unique, tensor, run.first);
      const Scalar *count = scalars_.constant(run.end - run.begin);
      return builder_.slice(unique, tensor, run.first, scalars_.add(run.first, count));
    };
    Value *blocks = steps.size() == 1 ? steps.front().block
                                      : alias(nameInStage(state_, stage_, "blocks"), stage_.whole);
    emitProducts(builder_, stage_, blocks, [&](const Product &product) {
      return alias(stage_.products.size() == 1 ? "outs" : product.dst->name + "_outs", product.dst);
    });
  }

  LoweringState &state_;
  Stage &stage_;
  ScalarContext &scalars_;
  Block &body_;
  ProgramBuilder builder_;
  Op *before_ = nullptr; ///< where the product goes
  std::optional<WaveCuts> cuts_;
  llvm::DenseMap<Value *, Value *> rows_; ///< whole tensors, flattened
};

} // namespace

bool mergeProducts(LoweringState &state) {
  if (state.options.schedule != Schedule::Doubling)
    return false;
  bool changed = false;
  for (Stage &stage : state.stages) {
    if (!stage.isGather() || !checkUnrolledSize(stage, state.diags))
      continue;
    if (stage.loop->begin->value() < stage.loop->end->value()) {
      Merger(state, stage).run();
      changed = true;
    }
    state.program->body().erase(stage.loop->getIterator());
    stage.loop = nullptr;
  }
  return changed;
}

} // namespace braid
