//===- lowering/passes/split_chunks.cpp - splits every step into row ranges -------------------===//
//
// A chunk's GEMM can start as soon as the chunk has arrived, before the rest of the block:
//
//   for %c in 0 .. 4 {
//     %mine_rows = slice %mine[%c * 32 .. (%c + 1) * 32]
//     %s = p2p send %mine_rows to ...
//     %block_rows = slice %block[%c * 32 .. (%c + 1) * 32]
//     ...
//
// The number of rows need not be a multiple of the number of chunks: `%c * R / n` rounds down, so
// row ranges differ by at most one row, and none is empty unless there are more chunks than rows.
// In a block with padding rows, chunks have the same bounds as in a full block, but may contain
// fewer rows or none. The local step transfers no data and is not split.
//
// If transfers take longer than GEMMs, only the last chunk's GEMM is exposed, because it cannot
// begin before the last bytes have arrived. A tail split T makes the last chunk smaller, by
// splitting the last step into T times as many chunks. The steps still form one loop: the number of
// chunks is an expression of the step number that has the same value on both sides of a transfer:
//
//   for %i in 1 .. 8 {
//     for %c in 0 .. 2 + %i/7 * 6 {
//       %mine_rows = slice %mine[%c * 32 / (2 + %i/7 * 6) .. (%c + 1) * 32 / (2 + %i/7 * 6)]
//
// In a reduction, the chunk loop encloses the steps. Only the last chunk is split, because its sum
// is exposed.
//
// A tail split does not affect stages without transfers, stages whose only GEMM follows the last
// transfer, or stages whose GEMMs span several blocks, because these stages would not benefit.
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/emit.h"
#include "lowering/passes/passes.h"
#include "lowering/stages/block_rows.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

#include <tuple>

namespace braid {
namespace {

/// True if only the last chunk's GEMM remains once all data has arrived.
bool canSplitTail(const Stage &stage) {
  return stage.moves() && stage.config.granularity() == schedule::Granularity::Chunk;
}

/// Returns text such as "split %A into 4 chunks" or "split the tail of %A into 4 parts".
std::string actionOf(const std::string &name, bool isTail, int64_t times) {
  const std::string number = std::to_string(times);
  return isTail ? "split the tail of " + name + " into " + number + " parts"
                : "split " + name + " into " + number + " chunks";
}

/// Returns true if each of the `ranges` row ranges of a step's block can be split into `times`
/// ranges. Otherwise reports that the chunks or, if `isTail`, the tail cannot be split like this.
bool checkRanges(const Stage &stage, bool isTail, int64_t times, int64_t ranges,
                 Diagnostics &diags) {
  const int64_t most = std::max<int64_t>(stage.rows / ranges, 1);
  if (times <= most)
    return true;
  auto message = diags.error(stage.location());
  message << "cannot " << actionOf("%" + stage.name().str(), isTail, times)
          << ": a step's block has ";
  if (stage.rows == 0)
    message << "no rows to split";
  else
    message << "only " << stage.rows << (stage.rows == 1 ? " row" : " rows");
  if (ranges > 1)
    message << ", which are already split into " << ranges << " chunks";
  return message << "; the maximum is " << most;
}

/// Moves the steps of a stage into an inner loop over row ranges.
class Splitter : Emitter {
public:
  Splitter(LoweringState &state, Stage &stage) : Emitter(state), stage_(stage) {}

  void run() {
    ranges_ = rangesOfStep();
    if (stage_.isReduction())
      return cutReduction();
    Block &body = stage_.loop->body;
    builder_.setLocation(stage_.location());
    builder_.insertAtEnd(body);
    stage_.chunkLoop = builder_.forLoop(local("c"), constant(0), ranges_);
    Block &inner = stage_.chunkLoop->body;
    for (Op &op : llvm::make_early_inc_range(body)) {
      if (llvm::isa<SelectOp>(op) || llvm::isa<SliceOp>(op) || &op == stage_.chunkLoop)
        continue;
      inner.splice(inner.end(), body, op.getIterator());
      useRows(inner, op);
    }
  }

private:
  /// Splits a reduction, whose chunk loop already encloses the steps.
  void cutReduction() {
    stage_.chunkLoop->end = ranges_;
    Block &body = stage_.chunkLoop->body;
    for (Op &op : llvm::make_early_inc_range(body))
      useRows(body, op);
  }

  /// Returns a step's number of row ranges: stage.chunks, times stage.tailSplit in the last step.
  const Scalar *rangesOfStep() {
    const Scalar *chunks = constant(stage_.chunks);
    if (stage_.isReduction())
      return constant(stage_.chunks - 1 + stage_.tailSplit);
    if (stage_.tailSplit == 1)
      return chunks;
    const ForOp &loop = *stage_.loop;
    int64_t last = loop.end->value() - 1;
    const Scalar *isLast =
        loop.begin->isConstant(last) ? constant(1) : scalars_.div(loop.index, constant(last));
    const Scalar *more = constant(stage_.chunks * (stage_.tailSplit - 1));
    return scalars_.add(chunks, scalars_.mul(isLast, more));
  }

  /// Replaces the operands of a moved node with slices of the chunk's rows.
  void useRows(Block &block, Op &op) {
    if (llvm::isa<IfOp>(op) || llvm::isa<ForOp>(op))
      return useRowsInside(op);
    if (auto *transfer = llvm::dyn_cast<P2POp>(&op)) {
      transfer->tensor = rowsOf(block, transfer->tensor, op);
    } else if (auto *matmul = llvm::dyn_cast<MatmulOp>(&op)) {
      matmul->dst = rowsOf(block, matmul->dst, op);
      matmul->a = rowsOf(block, matmul->a, op);
      if (matmul->addend)
        matmul->addend = rowsOf(block, matmul->addend, op);
    } else if (llvm::isa<PointwiseOp>(op) || llvm::isa<SetOp>(op)) {
      forEachOperand(op, [&](Value *&tensor) { tensor = rowsOf(block, tensor, op); });
    } else if (auto *sum = llvm::dyn_cast<SumOp>(&op)) {
      std::tie(sum->begin, sum->end) = rangeOfChunk(*sum->dst);
      sum->dst = rowsOf(block, sum->dst, op);
    }
  }

  /// Replaces operands in the blocks of `op`. Slices defined in a block are not used outside it.
  void useRowsInside(Op &op) {
    const auto before = rows_;
    forEachBlock(op, [&](Block &inner) {
      for (Op &each : llvm::make_early_inc_range(inner))
        useRows(inner, each);
      rows_ = before;
    });
  }

  /// Returns the chunk's rows in a step's tensor, sliced before their first use.
  Value *rowsOf(Block &block, Value *tensor, Op &user) {
    Value *&rows = rows_[tensor];
    if (rows)
      return rows;
    builder_.setLocation(user.location());
    builder_.insertBefore(block, user);
    auto [begin, end] = rangeOfChunk(*tensor);
    rows = builder_.slice(local(tensor->name + "_rows"), tensor, begin, end);
    return rows;
  }

  std::pair<const Scalar *, const Scalar *> rangeOfChunk(const Value &tensor) {
    const Scalar *chunk = stage_.chunkLoop->index;
    return clipTo(scalars_, tensor, firstRow(chunk), firstRow(scalars_.add(chunk, constant(1))));
  }

  const Scalar *firstRow(const Scalar *chunk) {
    if (stage_.isReduction() && stage_.tailSplit > 1)
      return firstRowOfSplit(chunk);
    if (ranges_->isConstant() && stage_.rows % ranges_->value() == 0)
      return scalars_.mul(chunk, constant(stage_.rows / ranges_->value()));
    return scalars_.div(scalars_.mul(chunk, constant(stage_.rows)), ranges_);
  }

  /// Returns the first row of `chunk` in a reduction with tail split T, in which every chunk before
  /// the tail is as long as T chunks in the tail.
  const Scalar *firstRowOfSplit(const Scalar *chunk) {
    const int64_t parts = stage_.chunks * stage_.tailSplit;
    const Scalar *whole = scalars_.min(chunk, constant(stage_.chunks - 1));
    const Scalar *more = scalars_.mul(whole, constant(stage_.tailSplit - 1));
    const Scalar *part = scalars_.add(chunk, stage_.chunks > 1 ? more : constant(0));
    if (stage_.rows % parts == 0)
      return scalars_.mul(part, constant(stage_.rows / parts));
    return scalars_.div(scalars_.mul(part, constant(stage_.rows)), constant(parts));
  }

  Stage &stage_;
  const Scalar *ranges_ = nullptr; ///< number of row ranges in a step; the chunk loop's end
  llvm::MapVector<Value *, Value *> rows_;
};

bool asksForCuts(const Configuration &config) {
  return config.chunks() > 1 || config.tailSplit() > 1;
}

/// Reports an error for a fusion or stage that has no steps to split.
bool refuseWithoutSteps(Location location, const std::string &what, const Configuration &config,
                        Diagnostics &diags) {
  const bool isTail = config.chunks() == 1;
  return diags.error(location) << "cannot "
                               << actionOf(what, isTail,
                                           isTail ? config.tailSplit() : config.chunks())
                               << ": no result has a Stream axis; use chunks=1 and tail-split=1";
}

/// Reports settings that have no effect on `stage`. Returns true if there are none.
bool checkStage(const Stage &stage, Diagnostics &diags) {
  const int64_t chunks = stage.config.chunks();
  if (stage.isReduction() && stage.multipliesWhole() && chunks > 1)
    return diags.error(stage.location())
           << "cannot " << actionOf("%" + stage.result().name, false, chunks)
           << ": one GEMM computes all partial results; use chunks=1";
  if (!stage.loop)
    return !stage.isNamed || !asksForCuts(stage.config) ||
           refuseWithoutSteps(stage.location(), "%" + stage.name().str(), stage.config, diags);
  return checkRanges(stage, /*isTail=*/false, chunks, 1, diags) &&
         (!canSplitTail(stage) ||
          checkRanges(stage, /*isTail=*/true, stage.config.tailSplit(), chunks, diags));
}

/// Reports a tail split that has no effect, unless it is set for all stages and any stage gathers.
bool checkTail(const LoweringState &state, const Stage &stage) {
  const bool isMeant = stage.isNamed || llvm::none_of(state.stages, [](const Stage &each) {
                         return each.isGather();
                       });
  if (!stage.isReduction() || !stage.multipliesWhole() || stage.config.tailSplit() == 1 || !isMeant)
    return true;
  return state.diags.error(stage.location())
         << "cannot split the tail of %" << stage.result().name << " into "
         << stage.config.tailSplit()
         << " parts: one GEMM computes all partial results; use tail-split=1";
}

/// Reports options that have no effect. Returns true if there are none.
bool checkOptions(const LoweringState &state) {
  const bool hasSteps =
      llvm::any_of(state.stages, [](const Stage &s) { return s.loop != nullptr; });
  if (!hasSteps && asksForCuts(state.options.all))
    return refuseWithoutSteps(state.fusion.location(), "@" + state.fusion.name(), state.options.all,
                              state.diags);
  bool isFine = true;
  for (const Stage &stage : state.stages)
    isFine &= checkStage(stage, state.diags) && checkTail(state, stage);
  return isFine;
}

} // namespace

bool splitChunks(LoweringState &state) {
  if (!checkOptions(state))
    return false;
  bool changed = false;
  for (Stage &stage : state.stages) {
    if (!stage.loop || stage.isCollective()) // has no steps, or already has chunks
      continue;
    stage.chunks = stage.config.chunks();
    stage.tailSplit = canSplitTail(stage) ? stage.config.tailSplit() : 1;
    if (stage.chunks * stage.tailSplit == 1)
      continue;
    Splitter(state, stage).run();
    changed = true;
  }
  return changed;
}

} // namespace braid
