//===- lowering/split_chunks.cpp - cuts every step into row ranges ---------------------------===//
//
// A chunk's product can start when the chunk has arrived, not only when its whole block has:
//
//   for %c in 0 .. 4 {
//     %mine_rows = slice %mine[%c * 32 .. (%c + 1) * 32]
//     %s = p2p send %mine_rows to ...
//     %block_rows = slice %block[%c * 32 .. (%c + 1) * 32]
//     ...
//
// The rows need not divide: `%c * R / n` rounds down, so that ranges differ by at most one row and
// none is empty as long as there are no more chunks than rows. The own step moves nothing and stays
// whole.
//
// Where transfers take longer than products, every product but the last is hidden behind transfers:
// that of the last chunk cannot begin before the last bytes are here. A taper T makes this chunk
// small without making all of them small, by cutting the last step into T times as many. The steps
// stay one loop, since the number of chunks is a formula of the step, the same on both sides of a
// transfer:
//
//   for %i in 1 .. 8 {
//     for %c in 0 .. 2 + %i/7 * 6 {
//       %mine_rows = slice %mine[%c * 32 / (2 + %i/7 * 6) .. (%c + 1) * 32 / (2 + %i/7 * 6)]
//
// A stage that moves nothing, or is multiplied only after its last transfer, or in products of many
// blocks, has nothing to gain and keeps its chunks.
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/emit.h"
#include "lowering/passes.h"

#include "llvm/ADT/MapVector.h"

namespace braid {
namespace {

int64_t chunksPerStep(const Stage &stage, const LoweringOptions &options) {
  return options.chunks == 0 ? 1 : options.chunks / stage.steps;
}

/// Reports why `chunks` cannot be had from this stage; true if it can.
bool checkChunks(const Stage &stage, int64_t chunks, Diagnostics &diags) {
  int64_t perStep = chunks / stage.steps;
  if (chunks % stage.steps == 0 && (perStep == 1 || perStep <= stage.rows))
    return true;
  auto message = diags.error(stage.location());
  message << "cannot cut %" << stage.name() << " into " << chunks << " chunks: ";
  if (chunks % stage.steps != 0)
    message << "it is taken in " << stage.steps << " steps, and chunks must be a multiple of that";
  else if (stage.rows == 0)
    message << "a step's block has no rows to cut";
  else
    message << "a step's block has only " << stage.rows << (stage.rows == 1 ? " row" : " rows");
  int64_t most = stage.steps * std::max<int64_t>(stage.rows, 1);
  if (most == stage.steps)
    return message << "; only " << most << " would be accepted";
  return message << "; a multiple of " << stage.steps << " up to " << most << " would be accepted";
}

/// True if the product of the last chunk is all that is left to do when everything has arrived.
bool canTaper(const Stage &stage, const LoweringOptions &options) {
  return stage.isGather() && !multipliesWhole(options.schedule) &&
         options.schedule != Schedule::Doubling;
}

/// Reports why the last step cannot have `taper` times the `perStep` chunks of the others; true if
/// it can.
bool checkTaper(const Stage &stage, int64_t perStep, int64_t taper, Diagnostics &diags) {
  int64_t most = std::max<int64_t>(stage.rows / perStep, 1);
  if (taper <= most)
    return true;
  auto message = diags.error(stage.location());
  message << "cannot taper %" << stage.name() << " by " << taper << ": a step's block has ";
  if (stage.rows == 0)
    message << "no rows to cut";
  else
    message << "only " << stage.rows << (stage.rows == 1 ? " row" : " rows");
  if (perStep > 1)
    message << ", in " << perStep << " chunks already";
  return message << (most == 1 ? "; only 1" : "; 1 up to " + std::to_string(most))
                 << " would be accepted";
}

/// Puts the steps of one stage into an inner loop over row ranges.
class Splitter {
public:
  Splitter(LoweringState &state, Stage &stage)
      : state_(state), stage_(stage), scalars_(state.program->scalars()),
        builder_(builderFor(state)) {}

  void run() {
    Block &body = stage_.loop->body;
    ranges_ = rangesOfStep();
    builder_.setLocation(stage_.location());
    builder_.insertAtEnd(body);
    stage_.chunkLoop = builder_.forLoop(state_.names.local("c"), scalars_.constant(0), ranges_);
    Block &inner = stage_.chunkLoop->body;
    for (Op &op : llvm::make_early_inc_range(body)) {
      if (llvm::isa<SelectOp>(op) || &op == stage_.chunkLoop)
        continue;
      inner.splice(inner.end(), body, op.getIterator());
      useRows(op);
    }
  }

private:
  /// How many row ranges a step has: stage.chunks, and the last one stage.taper times as many.
  const Scalar *rangesOfStep() {
    const Scalar *chunks = scalars_.constant(stage_.chunks);
    if (stage_.taper == 1)
      return chunks;
    const ForOp &loop = *stage_.loop;
    int64_t last = loop.end->value() - 1;
    const Scalar *isLast = loop.begin->isConstant(last)
                               ? scalars_.constant(1)
                               : scalars_.div(loop.index, scalars_.constant(last));
    const Scalar *more = scalars_.constant(stage_.chunks * (stage_.taper - 1));
    return scalars_.add(chunks, scalars_.mul(isLast, more));
  }

  /// Makes a moved node work on its chunk's rows.
  void useRows(Op &op) {
    if (auto *transfer = llvm::dyn_cast<P2POp>(&op)) {
      transfer->tensor = rowsOf(transfer->tensor, op);
    } else if (auto *matmul = llvm::dyn_cast<MatmulOp>(&op)) {
      matmul->dst = rowsOf(matmul->dst, op);
      matmul->a = rowsOf(matmul->a, op);
    } else if (auto *linear = llvm::dyn_cast<LinearOp>(&op)) {
      linear->dst = rowsOf(linear->dst, op);
      linear->x = rowsOf(linear->x, op);
    }
  }

  /// The chunk's rows of a step's tensor, sliced before their first use.
  Value *rowsOf(Value *tensor, Op &user) {
    Value *&rows = rows_[tensor];
    if (rows)
      return rows;
    builder_.setLocation(user.location());
    builder_.insertBefore(stage_.chunkLoop->body, user);
    const Scalar *chunk = stage_.chunkLoop->index;
    const Scalar *next = scalars_.add(chunk, scalars_.constant(1));
    rows = builder_.slice(state_.names.local(tensor->name + "_rows"), tensor, firstRow(chunk),
                          firstRow(next));
    return rows;
  }

  const Scalar *firstRow(const Scalar *chunk) {
    if (ranges_->isConstant() && stage_.rows % ranges_->value() == 0)
      return scalars_.mul(chunk, scalars_.constant(stage_.rows / ranges_->value()));
    return scalars_.div(scalars_.mul(chunk, scalars_.constant(stage_.rows)), ranges_);
  }

  LoweringState &state_;
  Stage &stage_;
  ScalarContext &scalars_;
  ProgramBuilder builder_;
  const Scalar *ranges_ = nullptr; ///< of a step: the chunk loop's end
  llvm::MapVector<Value *, Value *> rows_;
};

/// Reports why the fusion, none of whose stages has steps, cannot be cut.
void refuseWithoutSteps(const LoweringState &state) {
  auto message = state.diags.error(state.fusion.location());
  if (state.options.chunks)
    message << "cannot cut @" << state.fusion.name() << " into " << state.options.chunks
            << " chunks";
  else
    message << "cannot taper @" << state.fusion.name() << " by " << state.options.taper;
  message << ": no result has a Stream axis; only " << (state.options.chunks ? 0 : 1)
          << " would be accepted";
}

/// Reports what the options ask for and cannot be had; true if there is nothing.
bool checkOptions(const LoweringState &state) {
  const LoweringOptions &options = state.options;
  bool isFine = true;
  bool hasSteps = false;
  for (const Stage &stage : state.stages) {
    if (!stage.loop)
      continue;
    hasSteps = true;
    if (options.chunks && !checkChunks(stage, options.chunks, state.diags))
      isFine = false;
    else if (canTaper(stage, options))
      isFine &= checkTaper(stage, chunksPerStep(stage, options), options.taper, state.diags);
  }
  if (!hasSteps)
    refuseWithoutSteps(state);
  return hasSteps && isFine;
}

} // namespace

bool splitChunks(LoweringState &state) {
  const LoweringOptions &options = state.options;
  if ((options.chunks == 0 && options.taper == 1) || !checkOptions(state))
    return false;
  bool changed = false;
  for (Stage &stage : state.stages) {
    if (!stage.loop)
      continue;
    stage.chunks = chunksPerStep(stage, options);
    stage.taper = canTaper(stage, options) ? options.taper : 1;
    if (stage.chunks * stage.taper == 1)
      continue;
    Splitter(state, stage).run();
    changed = true;
  }
  return changed;
}

} // namespace braid
