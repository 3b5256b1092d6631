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
//===----------------------------------------------------------------------------------------===//

#include "lowering/emit.h"
#include "lowering/passes.h"

#include "llvm/ADT/MapVector.h"

namespace braid {
namespace {

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

/// Puts the steps of one stage into an inner loop over row ranges.
class Splitter {
public:
  Splitter(LoweringState &state, Stage &stage)
      : state_(state), stage_(stage), scalars_(state.program->scalars()),
        builder_(builderFor(state)) {}

  void run() {
    Block &body = stage_.loop->body;
    builder_.setLocation(stage_.location());
    builder_.insertAtEnd(body);
    stage_.chunkLoop = builder_.forLoop(state_.names.local("c"), scalars_.constant(0),
                                        scalars_.constant(stage_.chunks));
    Block &inner = stage_.chunkLoop->body;
    for (Op &op : llvm::make_early_inc_range(body)) {
      if (llvm::isa<SelectOp>(op) || &op == stage_.chunkLoop)
        continue;
      inner.splice(inner.end(), body, op.getIterator());
      useRows(op);
    }
  }

private:
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
    if (stage_.rows % stage_.chunks == 0)
      return scalars_.mul(chunk, scalars_.constant(stage_.rows / stage_.chunks));
    return scalars_.div(scalars_.mul(chunk, scalars_.constant(stage_.rows)),
                        scalars_.constant(stage_.chunks));
  }

  LoweringState &state_;
  Stage &stage_;
  ScalarContext &scalars_;
  ProgramBuilder builder_;
  llvm::MapVector<Value *, Value *> rows_;
};

} // namespace

bool splitChunks(LoweringState &state) {
  int64_t chunks = state.options.chunks;
  if (chunks == 0)
    return false;
  bool isFine = true;
  bool hasSteps = false;
  for (const Stage &stage : state.stages) {
    if (!stage.loop)
      continue;
    hasSteps = true;
    isFine &= checkChunks(stage, chunks, state.diags);
  }
  if (!hasSteps)
    return state.diags.error(state.fusion.location())
           << "cannot cut @" << state.fusion.name() << " into " << chunks
           << " chunks: no result has a Stream axis; only 0 would be accepted";
  if (!isFine)
    return false;
  bool changed = false;
  for (Stage &stage : state.stages) {
    if (!stage.loop || chunks == stage.steps)
      continue;
    stage.chunks = chunks / stage.steps;
    Splitter(state, stage).run();
    changed = true;
  }
  return changed;
}

} // namespace braid
