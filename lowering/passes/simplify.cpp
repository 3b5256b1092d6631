//===- lowering/passes/simplify.cpp - removes nodes that other passes made redundant ----------===//
//
// Removes loops without iterations, and inlines loops with one iteration and the taken branches of
// constant conditions. Removes unused aliases, buffers and stream names, set_current_stream nodes
// without effect, and sums that would only copy the result of a collective.
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/passes/passes.h"

#include "lowering/stages/reduction.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

namespace braid {
namespace {

//===- Loops with at most one iteration, and conditions ---------------------------------------===//

/// Replaces a loop index with a constant, in a node and in the blocks nested in it.
void substitute(ScalarContext &scalars, Op &root, const Scalar *index, const Scalar *value) {
  auto replace = [&](Op &op) {
    forEachScalar(op, [&](const Scalar *&s) { s = scalars.substitute(s, index, value); });
    if (Value *result = resultOf(op))
      for (const Scalar *&extent : result->type.shape)
        extent = scalars.substitute(extent, index, value);
  };
  replace(root);
  forEachBlock(root, [&](Block &block) { walk(block, replace); });
}

/// Replaces a loop that has at most one iteration with the nodes of that iteration.
bool fold(Program &program, Block &block, ForOp &loop) {
  if (!loop.begin->isConstant() || !loop.end->isConstant())
    return false;
  const int64_t trips = loop.end->value() - loop.begin->value();
  if (trips > 1)
    return false;
  if (trips == 1) {
    for (Op &op : loop.body)
      substitute(program.scalars(), op, loop.index, loop.begin);
    block.splice(loop.getIterator(), loop.body);
  }
  block.erase(loop.getIterator());
  return true;
}

bool fold(Block &block, IfOp &either) {
  if (!either.condition->isConstant())
    return false;
  const bool isFalse = either.condition->isConstant(0);
  block.splice(either.getIterator(), isFalse ? either.elseBlock : either.thenBlock);
  block.erase(either.getIterator());
  return true;
}

bool foldIn(Program &program, Block &block) {
  bool changed = false;
  for (Op &op : llvm::make_early_inc_range(block)) {
    forEachBlock(op, [&](Block &inner) { changed |= foldIn(program, inner); });
    if (auto *loop = llvm::dyn_cast<ForOp>(&op))
      changed |= fold(program, block, *loop);
    else if (auto *either = llvm::dyn_cast<IfOp>(&op))
      changed |= fold(block, *either);
  }
  return changed;
}

/// If inlining has put two values with the same name into one scope, renames the second value.
class NameSeparator {
public:
  explicit NameSeparator(Program &program) : program_(program) {
    walk(program.body(), [&](Op &op) {
      if (const Value *result = resultOf(op))
        used_.insert(result->name);
      if (const auto *loop = llvm::dyn_cast<ForOp>(&op))
        visible_.insert(loop->index->name()); // any scope may contain a loop that uses the name
    });
  }

  void run() {
    for (const auto &param : program_.params())
      visible_.insert(param->name);
    for (const auto &result : program_.results())
      visible_.insert(result->name);
    separateIn(program_.body());
  }

private:
  void separateIn(Block &block) {
    std::vector<std::string> defined;
    for (Op &op : block) {
      if (Value *result = resultOf(op)) {
        makeUnique(*result);
        defined.push_back(result->name);
      }
      forEachBlock(op, [&](Block &inner) { separateIn(inner); });
    }
    for (const std::string &name : defined)
      visible_.erase(name);
  }

  void makeUnique(Value &value) {
    if (visible_.insert(value.name).second)
      return;
    std::string wanted = value.name;
    for (int suffix = 2; used_.contains(value.name) || visible_.contains(value.name); ++suffix)
      value.name = wanted + "_" + std::to_string(suffix);
    used_.insert(value.name);
    visible_.insert(value.name);
  }

  Program &program_;
  llvm::StringSet<> used_;    ///< names anywhere in the program
  llvm::StringSet<> visible_; ///< names visible at the current point of the walk
};

//===- Unused values --------------------------------------------------------------------------===//

bool isAlias(const Op &op) {
  return llvm::isa<SelectOp>(op) || llvm::isa<SliceOp>(op) || llvm::isa<FlattenOp>(op);
}

bool isRemovable(const Op &op) {
  return isAlias(op) || llvm::isa<AllocateOp>(op) || llvm::isa<GetCurrentStreamOp>(op);
}

bool removeUnusedIn(Block &block, const llvm::DenseSet<const Value *> &used) {
  bool changed = false;
  for (Op &op : llvm::make_early_inc_range(block)) {
    forEachBlock(op, [&](Block &inner) { changed |= removeUnusedIn(inner, used); });
    if (!isRemovable(op) || used.contains(resultOf(op)))
      continue;
    block.erase(op.getIterator());
    changed = true;
  }
  return changed;
}

bool removeUnused(Program &program) {
  llvm::DenseSet<const Value *> used;
  walk(program.body(),
       [&](Op &op) { forEachOperand(op, [&](Value *&value) { used.insert(value); }); });
  return removeUnusedIn(program.body(), used);
}

//===- Changes to the current stream ----------------------------------------------------------===//

using Current = std::optional<StreamRef>; ///< the current stream; unset if unknown

/// Returns the stream that is current after `block`.
Current streamAfter(const Block &block, Current current) {
  for (const Op &op : block) {
    if (const auto *set = llvm::dyn_cast<SetCurrentStreamOp>(&op))
      current = set->stream;
    forEachBlock(op, [&](const Block &inner) {
      if (streamAfter(inner, current) != current)
        current = std::nullopt;
    });
  }
  return current;
}

/// True for nodes that issue nothing and do not depend on the current stream.
bool ignoresStream(const Op &op) { return isAlias(op) || llvm::isa<ShareMemHandlesOp>(op); }

class StreamCollapser {
public:
  bool run(Block &block, Current current) {
    SetCurrentStreamOp *unused = nullptr; // set, but not yet used by any node
    for (Op &op : llvm::make_early_inc_range(block)) {
      if (ignoresStream(op))
        continue;
      auto *set = llvm::dyn_cast<SetCurrentStreamOp>(&op);
      if (!set) {
        current = behind(op, current);
        unused = nullptr;
        continue;
      }
      if (set->stream == current) {
        erase(block, *set);
        continue;
      }
      if (unused)
        erase(block, *unused);
      unused = set;
      current = set->stream;
    }
    return changed_;
  }

private:
  void erase(Block &block, Op &op) {
    block.erase(op.getIterator());
    changed_ = true;
  }

  /// Simplifies the blocks of `op` (not a set_current_stream). Returns the current stream after it.
  Current behind(Op &op, Current current) {
    if (auto *get = llvm::dyn_cast<GetCurrentStreamOp>(&op))
      return StreamRef{&get->result, nullptr};
    Current after = current;
    forEachBlock(op, [&](Block &inner) {
      if (streamAfter(inner, current) != current)
        after = std::nullopt;
    });
    // The body runs repeatedly, so its initial stream is known only if it does not change streams.
    bool isLoop = llvm::isa<ForOp>(op);
    forEachBlock(op, [&](Block &inner) { run(inner, isLoop ? after : current); });
    return after;
  }

  bool changed_ = false;
};

} // namespace

bool simplify(LoweringState &state) {
  Program &program = *state.program;
  bool changed = false;
  for (Stage &stage : state.stages)
    changed |= reduceIntoResult(stage);
  bool again = true;
  while (again) {
    again = foldIn(program, program.body());
    if (again)
      NameSeparator(program).run();
    again |= removeUnused(program);
    again |= StreamCollapser().run(program.body(), std::nullopt);
    changed |= again;
  }
  return changed;
}

} // namespace braid
