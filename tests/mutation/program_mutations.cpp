//===- tests/mutation/program_mutations.cpp - mistakes in a program's text --------------------===//

#include "tests/mutation/mutants.h"
#include "tests/mutation/sites.h"

#include "ir/builder.h"

#include <fmt/format.h>

namespace braid::test {
namespace {

//===- Order ----------------------------------------------------------------------------------===//

template <class OpClass> SiteText drop(Program &program, size_t k) {
  std::vector<Site> sites = sitesOf<OpClass>(program);
  if (k >= sites.size())
    return std::nullopt;
  std::string what = "drop " + quoted(*sites[k].op);
  sites[k].block->erase(sites[k].op->getIterator());
  return what;
}

/// Returns true if a loop only orders streams, such as the fork before the steps or the join after
/// them.
bool onlyOrders(const ForOp &loop) {
  for (const Op &op : loop.body)
    if (!llvm::isa<SetCurrentStreamOp>(op) && !llvm::isa<SynchronizeOp>(op))
      return false;
  return true;
}

SiteText dropLoop(Program &program, size_t k) {
  std::vector<Site> sites = sitesOf<ForOp>(program);
  std::erase_if(sites, [](const Site &site) { return !onlyOrders(*llvm::cast<ForOp>(site.op)); });
  if (k >= sites.size())
    return std::nullopt;
  std::string what = "drop " + quoted(*sites[k].op);
  sites[k].block->erase(sites[k].op->getIterator());
  return what;
}

/// Returns the next transfer in the block if it has the opposite direction and no wait precedes it,
/// otherwise null.
Op *otherDirectionBehind(const Site &site) {
  auto *first = llvm::cast<P2POp>(site.op);
  for (Op *op = nodeBehind(*site.block, *site.op); op; op = nodeBehind(*site.block, *op)) {
    auto *other = llvm::dyn_cast<P2POp>(op);
    if (other && other->direction != first->direction)
      return other;
    if (other || llvm::isa<WaitOp>(op))
      return nullptr;
  }
  return nullptr;
}

SiteText swapTransfers(Program &program, size_t k) {
  std::vector<Site> sites = sitesOf<P2POp>(program);
  std::erase_if(sites, [](const Site &site) { return !otherDirectionBehind(site); });
  if (k >= sites.size())
    return std::nullopt;
  Op *other = otherDirectionBehind(sites[k]);
  moveBehind(*sites[k].block, *sites[k].op, *other);
  return fmt::format("swap {} and {}", quoted(*sites[k].op), quoted(*other));
}

/// Returns the last node before `op` in its block that sets the current stream, or null.
SetCurrentStreamOp *choiceBefore(Block &block, Op &op) {
  SetCurrentStreamOp *last = nullptr;
  for (Op &each : block) {
    if (&each == &op)
      break;
    if (auto *choice = llvm::dyn_cast<SetCurrentStreamOp>(&each))
      last = choice;
  }
  return last;
}

/// Like swapTransfers(), but also moves the transfer that is now second to another stream. The
/// mutant is correct if there are enough queues that the two streams do not share one.
SiteText swapOnTwoStreams(Program &program, size_t k) {
  std::vector<Site> sites = sitesOf<P2POp>(program), mains = sitesOf<GetCurrentStreamOp>(program);
  std::erase_if(sites, [](const Site &site) {
    return !otherDirectionBehind(site) || !choiceBefore(*site.block, *site.op);
  });
  if (k >= sites.size() || mains.empty())
    return std::nullopt;
  Block &block = *sites[k].block;
  Op &op = *sites[k].op, *other = otherDirectionBehind(sites[k]);
  const StreamRef before = choiceBefore(block, op)->stream;
  moveBehind(block, op, *other);
  ProgramBuilder builder(program);
  builder.insertBefore(block, op);
  builder.setCurrentStream({nullptr, program.scalars().constant(9)});
  builder.synchronize({&llvm::cast<GetCurrentStreamOp>(mains[0].op)->result, nullptr});
  builder.insertAfter(block, op);
  builder.setCurrentStream(before);
  return fmt::format("swap {} and {}, on two streams", quoted(op), quoted(*other));
}

/// Moves a wait after any later node of its block.
SiteText moveWait(Program &program, size_t k) {
  for (const Site &site : sitesOf<WaitOp>(program))
    for (Op *target = nodeBehind(*site.block, *site.op); target;
         target = nodeBehind(*site.block, *target))
      if (k-- == 0) {
        std::string what = fmt::format("move {} behind {}", quoted(*site.op), quoted(*target));
        moveBehind(*site.block, *site.op, *target);
        return what;
      }
  return std::nullopt;
}

/// Returns the GEMMs, copies and sums.
std::vector<Site> workOf(Program &program) {
  std::vector<Site> sites = sitesOf(program);
  std::erase_if(sites, [](const Site &site) {
    return !llvm::isa<MatmulOp>(site.op) && !llvm::isa<SetOp>(site.op) &&
           !llvm::isa<SumOp>(site.op);
  });
  return sites;
}

SiteText dropWork(Program &program, size_t k) {
  std::vector<Site> sites = workOf(program);
  if (k >= sites.size())
    return std::nullopt;
  std::string what = "drop " + quoted(*sites[k].op);
  sites[k].block->erase(sites[k].op->getIterator());
  return what;
}

SiteText repeatWork(Program &program, size_t k) {
  std::vector<Site> sites = workOf(program);
  if (k >= sites.size())
    return std::nullopt;
  ProgramBuilder builder(program);
  builder.insertAfter(*sites[k].block, *sites[k].op);
  ProgramBuilder::Mapping unchanged;
  return "repeat " + quoted(*builder.clone(*sites[k].op, unchanged));
}

//===- Scalars --------------------------------------------------------------------------------===//

SiteText movePeer(Program &program, size_t k) {
  std::vector<Site> sites = sitesOf<P2POp>(program);
  if (k / 2 >= sites.size())
    return std::nullopt;
  auto *op = llvm::cast<P2POp>(sites[k / 2].op);
  ScalarContext &scalars = program.scalars();
  const Scalar *step = scalars.constant(k % 2 == 0 ? 1 : -1);
  std::string what = quoted(*op);
  op->peer = scalars.mod(scalars.add(op->peer, step), scalars.constant(program.ranks()));
  return what + " becomes " + quoted(*op);
}

/// Shifts the index of a select by one, with wrap-around, or shifts a slice by one.
SiteText moveIndex(Program &program, size_t k) {
  std::vector<Site> sites = sitesOf(program);
  std::erase_if(sites, [](const Site &site) {
    return !llvm::isa<SelectOp>(site.op) && !llvm::isa<SliceOp>(site.op);
  });
  if (k / 2 >= sites.size())
    return std::nullopt;
  Op &op = *sites[k / 2].op;
  std::string what = quoted(op);
  ScalarContext &scalars = program.scalars();
  const Scalar *step = scalars.constant(k % 2 == 0 ? 1 : -1);
  if (auto *slice = llvm::dyn_cast<SliceOp>(&op)) {
    slice->begin = scalars.add(slice->begin, step);
    slice->end = scalars.add(slice->end, step);
  } else {
    auto &select = *llvm::cast<SelectOp>(&op);
    select.index = scalars.mod(scalars.add(select.index, step), select.tensor->type.shape.front());
  }
  return what == quoted(op) ? "" : what + " becomes " + quoted(op);
}

/// Adds a row to the end of a slice, or removes one.
SiteText resizeSlice(Program &program, size_t k) {
  std::vector<Site> sites = sitesOf<SliceOp>(program);
  if (k / 2 >= sites.size())
    return std::nullopt;
  auto &slice = *llvm::cast<SliceOp>(sites[k / 2].op);
  const std::string what = quoted(slice);
  ScalarContext &scalars = program.scalars();
  slice.end = scalars.add(slice.end, scalars.constant(k % 2 == 0 ? 1 : -1));
  return what + " becomes " + quoted(slice);
}

/// Returns the loop index in a scalar, or null. Scalars in these programs have at most one.
const Scalar *loopIndexIn(const Scalar *scalar) {
  if (scalar->kind() == ScalarKind::LoopIndex)
    return scalar;
  if (!isBinary(scalar->kind()))
    return nullptr;
  const Scalar *left = loopIndexIn(scalar->lhs());
  return left ? left : loopIndexIn(scalar->rhs());
}

/// Reverses the order of steps or chunks. Every block is still accessed once, but in a different
/// step.
SiteText turnAround(Program &program, size_t k) {
  std::vector<Site> sites = sitesOf(program);
  std::erase_if(sites, [](const Site &site) {
    return !llvm::isa<SelectOp>(site.op) && !llvm::isa<SliceOp>(site.op);
  });
  if (k >= sites.size())
    return std::nullopt;
  Op &op = *sites[k].op;
  std::string what = quoted(op);
  ScalarContext &scalars = program.scalars();
  if (auto *slice = llvm::dyn_cast<SliceOp>(&op)) {
    const Scalar *extent = slice->tensor->type.shape.front(), *begin = slice->begin;
    slice->begin = scalars.sub(extent, slice->end);
    slice->end = scalars.sub(extent, begin);
  } else if (auto &select = *llvm::cast<SelectOp>(&op); loopIndexIn(select.index)) {
    const Scalar *loop = loopIndexIn(select.index);
    select.index = scalars.substitute(select.index, loop, scalars.sub(scalars.constant(0), loop));
    select.index = scalars.mod(select.index, select.tensor->type.shape.front());
  }
  return what == quoted(op) ? "" : what + " becomes " + quoted(op);
}

/// Makes two neighboring blocks share a slot.
SiteText reuseSlot(Program &program, size_t k) {
  std::vector<Site> sites = sitesOf<SelectOp>(program);
  if (k / 2 >= sites.size())
    return std::nullopt;
  auto &op = *llvm::cast<SelectOp>(sites[k / 2].op);
  const Scalar *extent = op.tensor->type.shape.front();
  if (!extent->isConstant() || extent->value() < 2)
    return "";
  std::string what = quoted(op);
  ScalarContext &scalars = program.scalars();
  op.index = k % 2 == 0 ? scalars.constant(0)
                        : scalars.mod(op.index, scalars.constant(extent->value() - 1));
  return what == quoted(op) ? "" : what + " becomes " + quoted(op);
}

/// Returns the stream that a node refers to, or null.
StreamRef *streamOf(Op &op) {
  if (auto *set = llvm::dyn_cast<SetCurrentStreamOp>(&op))
    return &set->stream;
  if (auto *synchronize = llvm::dyn_cast<SynchronizeOp>(&op))
    return &synchronize->stream;
  return nullptr;
}

/// Moves a node to the next or previous stream; a named stream becomes stream(0).
SiteText moveStream(Program &program, size_t k) {
  std::vector<Site> sites = sitesOf(program);
  std::erase_if(sites, [](const Site &site) { return !streamOf(*site.op); });
  if (k / 2 >= sites.size())
    return std::nullopt;
  Op &op = *sites[k / 2].op;
  StreamRef &stream = *streamOf(op);
  std::string what = quoted(op);
  ScalarContext &scalars = program.scalars();
  if (stream.named && k % 2 == 0)
    return "";
  stream.index = stream.named ? scalars.constant(0)
                              : scalars.add(stream.index, scalars.constant(k % 2 == 0 ? 1 : -1));
  if (!stream.named && k % 2 != 0) // avoids negative numbers
    stream.index = scalars.mod(stream.index, scalars.constant(4));
  stream.named = nullptr;
  return what + " becomes " + quoted(op);
}

//===- Memory and handles ---------------------------------------------------------------------===//

/// Returns whether a node accesses a buffer, itself or in its blocks.
bool touches(const Op &op, const Value *buffer) {
  bool found = false;
  forEachOperand(op, [&](const Value *value) {
    found |= value->kind == ValueKind::Tensor && rootOf(value) == buffer;
  });
  forEachBlock(op, [&](const Block &block) {
    for (const Op &inner : block)
      found |= touches(inner, buffer);
  });
  return found;
}

/// Returns the program's smallest parameter.
Value *smallestParameter(Program &program) {
  Value *smallest = nullptr;
  auto bytes = [](const Value *value) {
    int64_t count = sizeOf(value->type.dtype);
    for (const Scalar *extent : value->type.shape)
      count *= extent->value();
    return count;
  };
  for (const auto &value : program.params())
    if (!smallest || bytes(value.get()) < bytes(smallest))
      smallest = value.get();
  return smallest;
}

/// Deallocates a buffer before a node of the outermost block that uses it. For odd k, a new buffer
/// then reuses the memory and is written. This excludes symmetric memory, which is never reused.
SiteText freeEarly(Program &program, size_t k) {
  const bool reuses = k % 2 != 0;
  k /= 2;
  for (const Site &site : sitesOf<AllocateOp>(program)) {
    auto *allocate = llvm::cast<AllocateOp>(site.op);
    Value *buffer = &allocate->result;
    for (Op *op = nodeBehind(*site.block, *site.op); op; op = nodeBehind(*site.block, *op)) {
      if (llvm::isa<ShareMemHandlesOp>(op) || !touches(*op, buffer) || k-- != 0)
        continue;
      if (reuses && allocate->space == MemorySpace::Symmetric)
        return "";
      ProgramBuilder builder(program);
      builder.insertBefore(program.body(), *op);
      builder.deallocate(buffer);
      if (reuses) {
        Value *source = smallestParameter(program);
        builder.set(builder.allocate("mutated_reused", MemorySpace::Device, source->type), source);
      }
      return fmt::format("deallocate %{} before {}{}", buffer->name, quoted(*op),
                         reuses ? ", and reuse the memory" : "");
    }
  }
  return std::nullopt;
}

/// Restricts the k-th handle exchange, transfer or wait to rank 0.
SiteText onlyOnRankZero(Program &program, size_t k) {
  std::vector<Site> sites = sitesOf(program);
  std::erase_if(sites, [](const Site &site) {
    return !llvm::isa<ShareMemHandlesOp>(site.op) && !llvm::isa<P2POp>(site.op) &&
           !llvm::isa<WaitOp>(site.op);
  });
  if (k >= sites.size())
    return std::nullopt;
  Block &block = *sites[k].block;
  Op &op = *sites[k].op;
  ScalarContext &scalars = program.scalars();
  ProgramBuilder builder(program);
  builder.insertBefore(block, op);
  IfOp *condition =
      builder.ifOp(scalars.binary(ScalarKind::Eq, scalars.rank(), scalars.constant(0)));
  condition->thenBlock.push_back(block.remove(op.getIterator()));
  return quoted(op) + " on rank 0 only";
}

/// Omits the k-th handle exchange on all ranks. The node itself remains, because other nodes refer
/// to it.
SiteText dropExchange(Program &program, size_t k) {
  std::vector<Site> sites = sitesOf<ShareMemHandlesOp>(program);
  if (k >= sites.size())
    return std::nullopt;
  Block &block = *sites[k].block;
  Op &op = *sites[k].op;
  ScalarContext &scalars = program.scalars();
  ProgramBuilder builder(program);
  builder.insertBefore(block, op);
  IfOp *never = builder.ifOp(scalars.binary(ScalarKind::Lt, scalars.rank(), scalars.constant(0)));
  never->thenBlock.push_back(block.remove(op.getIterator()));
  return "drop " + quoted(op);
}

} // namespace

llvm::ArrayRef<ProgramMutation> programMutations() {
  static const ProgramMutation mutations[] = {
      {"drop a wait", drop<WaitOp>},
      {"drop a synchronize", drop<SynchronizeOp>},
      {"drop a choice of stream", drop<SetCurrentStreamOp>},
      {"drop the fork or join loop", dropLoop},
      {"swap a send and a receive", swapTransfers},
      {"swap them, on two streams", swapOnTwoStreams},
      {"move a wait down", moveWait},
      {"drop a GEMM, copy or sum", dropWork},
      {"do a GEMM, copy or sum twice", repeatWork},
      {"move a peer by one", movePeer},
      {"move an index by one", moveIndex},
      {"take a row more or less", resizeSlice},
      {"move a stream by one", moveStream},
      {"turn an index around", turnAround},
      {"reuse one slot for two blocks", reuseSlot},
      {"free early", freeEarly},
      {"drop a handle exchange", dropExchange},
      {"do it on rank 0 only", onlyOnRankZero},
  };
  return mutations;
}

} // namespace braid::test
