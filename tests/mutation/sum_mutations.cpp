//===- tests/mutation/sum_mutations.cpp - mistakes in sums of partial results -----------------===//

#include "tests/mutation/mutants.h"
#include "tests/mutation/sites.h"

#include "ir/builder.h"

#include <fmt/format.h>

namespace braid::test {
namespace {

int64_t partCount(const SumOp &sum) { return sum.parts->type.shape.front()->value(); }

/// Omits the first or the last part of a sum.
SiteText dropPart(Program &program, size_t k) {
  std::vector<Site> sites = sitesOf<SumOp>(program);
  if (k / 2 >= sites.size())
    return std::nullopt;
  auto &sum = *llvm::cast<SumOp>(sites[k / 2].op);
  const int64_t first = k % 2 == 0 ? 1 : 0, count = partCount(sum) - 1;
  ScalarContext &scalars = program.scalars();
  ProgramBuilder builder(program);
  builder.insertBefore(*sites[k / 2].block, sum);
  sum.parts = builder.slice("mutated_fewer", sum.parts, scalars.constant(first),
                            scalars.constant(first + count));
  return fmt::format("the {} part is missing in {}", k % 2 == 0 ? "first" : "last", quoted(sum));
}

/// Moves the range of a sum up or down by one, mirrors it, or omits it.
SiteText moveRange(Program &program, size_t k) {
  std::vector<Site> sites = sitesOf<SumOp>(program);
  std::erase_if(sites, [](const Site &site) { return !llvm::cast<SumOp>(site.op)->begin; });
  if (k / 4 >= sites.size())
    return std::nullopt;
  auto &sum = *llvm::cast<SumOp>(sites[k / 4].op);
  const std::string what = quoted(sum);
  ScalarContext &scalars = program.scalars();
  const Scalar *begin = sum.begin, *end = sum.end, *rows = sum.parts->type.shape[1];
  const Scalar *step = scalars.constant(k % 4 == 0 ? 1 : -1);
  sum.begin = k % 4 == 3 ? nullptr : k % 4 == 2 ? scalars.sub(rows, end) : scalars.add(begin, step);
  sum.end = k % 4 == 3 ? nullptr : k % 4 == 2 ? scalars.sub(rows, begin) : scalars.add(end, step);
  return what + " becomes " + quoted(sum);
}

/// Copies a slot over the next one before both are added.
SiteText copySlot(Program &program, size_t k) {
  for (const Site &site : sitesOf<SumOp>(program)) {
    auto &sum = *llvm::cast<SumOp>(site.op);
    const auto count = static_cast<size_t>(partCount(sum));
    if (k >= count) {
      k -= count;
      continue;
    }
    ScalarContext &scalars = program.scalars();
    ProgramBuilder builder(program);
    builder.insertBefore(*site.block, sum);
    Value *from =
        builder.select("mutated_from", sum.parts, scalars.constant(static_cast<int64_t>(k)));
    Value *over = builder.select("mutated_over", sum.parts,
                                 scalars.constant(static_cast<int64_t>((k + 1) % count)));
    SetOp *copy = builder.set(over, from);
    return fmt::format("{} of {} before {}", quoted(*copy), quoted(*from->definition), quoted(sum));
  }
  return std::nullopt;
}

bool isAlias(const Op &op) {
  return llvm::isa<SelectOp>(op) || llvm::isa<SliceOp>(op) || llvm::isa<FlattenOp>(op);
}

bool definesOperandOf(Op &op, llvm::ArrayRef<Op *> users) {
  bool isOperand = false;
  for (const Op *user : users)
    forEachOperand(*user, [&](const Value *value) { isOperand |= value == resultOf(op); });
  return resultOf(op) && isOperand;
}

/// Calls `fn` for every node before which a sum can be moved, with the sum and the aliases that
/// have to move with it, in order.
void forEachPlaceAbove(const Site &sum, llvm::function_ref<bool(Op &, llvm::ArrayRef<Op *>)> fn) {
  std::vector<Op *> moved = {sum.op};
  for (Op *target = nodeBefore(*sum.block, *sum.op); target;
       target = nodeBefore(*sum.block, *target)) {
    if (!definesOperandOf(*target, moved)) {
      if (!fn(*target, moved))
        return;
    } else if (isAlias(*target)) {
      moved.insert(moved.begin(), target);
    } else {
      return;
    }
  }
}

/// Moves a sum before an earlier node of its block, as long as its operands exist there.
SiteText moveSumUp(Program &program, size_t k) {
  SiteText what;
  for (const Site &site : sitesOf<SumOp>(program)) {
    forEachPlaceAbove(site, [&](Op &target, llvm::ArrayRef<Op *> moved) {
      if (k-- != 0)
        return true;
      what = fmt::format("move {} before {}", quoted(*site.op), quoted(target));
      for (Op *op : moved)
        site.block->insert(target.getIterator(), site.block->remove(op->getIterator()));
      return false;
    });
    if (what)
      break;
  }
  return what;
}

//===- The bias -------------------------------------------------------------------------------===//

/// Returns the bias of a node, or null if the node cannot have one.
Value **biasOf(Op &op) {
  if (auto *matmul = llvm::dyn_cast<MatmulOp>(&op))
    return matmul->transposeB ? &matmul->bias : nullptr;
  auto *sum = llvm::dyn_cast<SumOp>(&op);
  return sum ? &sum->bias : nullptr;
}

/// Returns the nodes that can have a bias: those with one if `doAdd`, else those without.
std::vector<Site> sitesOfBias(Program &program, bool doAdd) {
  std::vector<Site> sites = sitesOf(program);
  std::erase_if(sites, [&](const Site &site) {
    Value **bias = biasOf(*site.op);
    return !bias || (*bias != nullptr) != doAdd;
  });
  return sites;
}

SiteText dropBias(Program &program, size_t k) {
  std::vector<Site> sites = sitesOfBias(program, true);
  if (k >= sites.size())
    return std::nullopt;
  std::string what = "no bias in " + quoted(*sites[k].op);
  *biasOf(*sites[k].op) = nullptr;
  return what;
}

/// Makes another node add the bias, either in addition or instead.
SiteText addBias(Program &program, size_t k) {
  std::vector<Site> adders = sitesOfBias(program, true), others = sitesOfBias(program, false);
  if (adders.empty() || k / 2 >= others.size())
    return std::nullopt;
  Op &op = *others[k / 2].op;
  Value *&bias = *biasOf(*adders.front().op);
  *biasOf(op) = bias;
  if (k % 2 != 0)
    bias = nullptr;
  return fmt::format("the bias is {} in {}", k % 2 == 0 ? "added, too," : "moved", quoted(op));
}

} // namespace

llvm::ArrayRef<ProgramMutation> sumMutations() {
  static const ProgramMutation mutations[] = {
      {"drop a part of a sum", dropPart},
      {"move the range of a sum", moveRange},
      {"copy one part over another", copySlot},
      {"move a sum up", moveSumUp},
      {"drop a bias", dropBias},
      {"add or move a bias", addBias},
  };
  return mutations;
}

} // namespace braid::test
