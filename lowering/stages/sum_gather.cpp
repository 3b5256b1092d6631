//===- lowering/stages/sum_gather.cpp - the second shot of an all-reduce ----------------------===//

#include "lowering/stages/sum_gather.h"

#include "lowering/emit.h"
#include "lowering/stages/block_rows.h"
#include "lowering/stages/gather_order.h"
#include "lowering/stages/host_order.h"
#include "lowering/stages/reduced_rows.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

bool reads(const Stage &stage, const Value *whole) {
  auto takes = [&](const PointwiseStep<Value *> &step) { return step.operand == whole; };
  return stage.input == whole ||
         llvm::any_of(stage.gemms,
                      [&](const Gemm &gemm) {
                        return gemm.bias == whole || llvm::is_contained(gemm.lefts, whole) ||
                               llvm::is_contained(gemm.rights, whole);
                      }) ||
         llvm::any_of(stage.pointwise, [&](const Pointwise &each) {
           return each.first == whole || llvm::any_of(each.steps, takes);
         });
}

/// Returns the tensors to send to all ranks: program results, and tensors that other stages read.
llvm::SmallVector<Value *, 1> sharedOf(const LoweringState &state, const Stage &stage) {
  llvm::SmallVector<Value *, 1> shared;
  auto add = [&](Value *whole) {
    const bool isResult = !whole->definition;
    if (isResult || llvm::any_of(state.stages, [&](const Stage &each) {
          return &each != &stage && reads(each, whole);
        }))
      shared.push_back(whole);
  };
  add(stage.gemms.front().dst);
  for (const Pointwise &each : stage.pointwise)
    add(each.dst);
  if (shared.empty()) // unused results are still computed
    shared.push_back(stage.gemms.front().dst);
  return shared;
}

/// Returns true if `op` continues the computation that `first` begins: a pointwise function of a
/// sum, or a GEMM that adds another product to the result of `first`.
bool continues(const Op &first, const Op &op) {
  if (llvm::isa<SumOp>(first))
    return llvm::isa<PointwiseOp>(op);
  const auto *product = llvm::dyn_cast<MatmulOp>(&op);
  return product && product->addend == product->dst &&
         product->dst == llvm::cast<MatmulOp>(first).dst;
}

/// Returns the nodes in `block` that compute the sums of this rank's rows: a sum and the subsequent
/// nodes that apply pointwise functions to its result, or GEMMs.
llvm::SmallVector<Op *, 2> findMade(const Stage &stage, Block &block) {
  Op *first = stage.sum ? stage.sum : stage.lastGemm;
  llvm::SmallVector<Op *, 2> made = {first};
  for (auto at = std::next(first->getIterator()); at != block.end(); ++at)
    if (continues(*first, *at))
      made.push_back(&*at);
    else if (!llvm::isa<SelectOp>(*at) && !llvm::isa<SliceOp>(*at))
      break;
  return made;
}

/// Returns the alias of `whole` that one of the nodes in `made` writes, or null.
Value *ownOf(llvm::ArrayRef<Op *> made, const Value *whole) {
  for (Op *op : made)
    if (Value *own = writtenBy(*op); rootOf(own) == whole)
      return own;
  return nullptr;
}

class GatherInserter : Emitter {
public:
  GatherInserter(LoweringState &state, Stage &stage, Value *handles)
      : Emitter(state), stage_(stage), handles_(handles) {}

  void run() {
    builder_.setLocation(stage_.location());
    builder_.insertBefore(body_, *stage_.first);
    for (Value *whole : sharedOf(state_, stage_))
      shared_.push_back(
          {shared_.empty() ? "" : "_" + whole->name, joinRows(stage_, whole), ownOf(made_, whole)});
    if (!stage_.isHierarchical() && stage_.sumProtocol() == Protocol::Put)
      return push();
    for (auto [each, sums] : llvm::zip(shared_, stage_.sums))
      makeInSlot(each, sums);
    if (stage_.isHierarchical())
      passOn();
    else
      fetch();
    builder_.insertAfter(*around_, *stage_.gather);
    for (const Shared &each : shared_)
      builder_.set(each.own, each.slot);
  }

private:
  /// A tensor whose rows the ranks exchange.
  struct Shared {
    std::string suffix; ///< appended to generated names; empty for the first tensor
    Value *result;      ///< the rows of all ranks
    Value *own;         ///< the rows that this rank has computed
    Value *slot = nullptr, *sent = nullptr, *received = nullptr;
  };

  void push() {
    formLoop();
    for (auto [each, sums] : llvm::zip(shared_, stage_.sums)) {
      each.slot = selectBlock(stage_, inSteps("sum_slot", each), sums, from_);
      each.received = builder_.receive(inSteps("r", each), each.slot, from_, handles_);
    }
    for (Shared &each : shared_)
      each.sent = builder_.send(inSteps("s", each), each.own, to_, handles_);
    waitFor(&Shared::sent);
    for (const Shared &each : shared_) {
      builder_.wait(each.received);
      builder_.set(selectRows(each), each.slot);
    }
  }

  void fetch() {
    formLoop();
    for (Shared &each : shared_)
      each.sent = builder_.send(inSteps("s", each), each.slot, to_, handles_);
    for (Shared &each : shared_)
      each.received = builder_.receive(inSteps("r", each), selectRows(each), from_, handles_);
    waitFor(&Shared::received);
    waitFor(&Shared::sent);
  }

  /// Receives the other ranks' sums into slots from which the sums are forwarded.
  void passOn() {
    const HostOrder order(scalars_, stage_);
    builder_.insertAfter(*around_, *made_.back());
    stage_.gather = builder_.forLoop(local("host"), constant(0), constant(stage_.hosts()));
    builder_.insertAtEnd(stage_.gather->body);
    const Scalar *host = stage_.gather->index, *none = constant(0);
    IfOp *isOther = builder_.ifOp(scalars_.binary(ScalarKind::Ne, host, none));
    ForOp *relay = builder_.forLoop(local("i"), constant(1), constant(stage_.ranksPerHost));
    const Scalar *step = relay->index;
    builder_.insertAtEnd(isOther->thenBlock);
    exchange(scalars_.rank(), order.farther(host), order.far(host), order.far(host));
    builder_.insertAtEnd(relay->body);
    exchange(order.far(host), order.nearer(step), order.block(host, step), order.near(step));
  }

  void waitFor(Value *Shared::*request) {
    for (const Shared &each : shared_)
      builder_.wait(each.*request);
  }

  /// Sends the rows summed by rank `given`, and receives the rows summed by rank `taken`.
  void exchange(const Scalar *given, const Scalar *to, const Scalar *taken, const Scalar *from) {
    std::vector<Value *> slots, passed;
    for (auto [each, sums] : llvm::zip(shared_, stage_.sums)) {
      passed.push_back(selectBlock(stage_, inSteps("passed", each), sums, given));
      slots.push_back(selectBlock(stage_, inSteps("sum_slot", each), sums, taken));
    }
    const bool isGet = stage_.config.protocol() == Protocol::Get;
    auto send = [&] {
      for (auto [each, source] : llvm::zip(shared_, passed))
        each.sent = builder_.send(inSteps("s", each), source, to, handles_);
    };
    if (isGet)
      send();
    for (auto [each, slot] : llvm::zip(shared_, slots))
      each.received = builder_.receive(inSteps("r", each), slot, from, handles_);
    if (!isGet)
      send();
    waitFor(isGet ? &Shared::received : &Shared::sent);
    waitFor(isGet ? &Shared::sent : &Shared::received);
    from_ = taken;
    for (auto [each, slot] : llvm::zip(shared_, slots))
      builder_.set(selectRows(each), slot);
  }

  /// Makes the nodes that compute the local sums write them to the symmetric buffer, which also
  /// contains the other ranks' sums if sums are forwarded.
  void makeInSlot(Shared &shared, Value *sums) {
    builder_.insertBefore(*around_, *made_.front());
    const std::string name = "mine" + shared.suffix;
    shared.slot =
        selectBlock(stage_, stage_.chunkLoop ? local(name) : global(name), sums,
                    stage_.isHierarchical() ? scalars_.rank() : constant(0), scalars_.rank());
    for (Op *op : made_)
      forEachOperand(*op,
                     [&](Value *&value) { value = value == shared.own ? shared.slot : value; });
  }

  void formLoop() {
    builder_.insertAfter(*around_, *made_.back());
    stage_.gather = builder_.forLoop(local("i"), constant(1), constant(stage_.steps));
    const GatherOrder order(scalars_, schedule::Order::Shift, stage_.steps);
    to_ = order.source(stage_.gather->index);
    from_ = order.target(stage_.gather->index);
    builder_.insertAtEnd(stage_.gather->body);
  }

  /// Returns the rows of the result that rank `from_` computes.
  Value *selectRows(const Shared &shared) {
    return selectReduced(stage_, inSteps("theirs", shared), shared.result, from_, from_);
  }

  std::string inSteps(const char *what, const Shared &shared) {
    return local(what + shared.suffix);
  }

  Stage &stage_;
  Value *handles_;
  Block *around_ = stage_.chunkLoop ? &stage_.chunkLoop->body : &body_;
  llvm::SmallVector<Op *, 2> made_ = findMade(stage_, *around_);
  llvm::SmallVector<Shared, 1> shared_;
  const Scalar *to_ = nullptr, *from_ = nullptr;
};

} // namespace

void allocateSums(LoweringState &state, Stage &stage, ProgramBuilder &builder) {
  Shape shape = partShape(state.fusion, stage);
  const bool hasAll = stage.sumProtocol() == Protocol::Put || stage.isHierarchical();
  shape.insert(shape.begin(), hasAll ? stage.steps : 1);
  for (const Value *whole : sharedOf(state, stage))
    stage.sums.push_back(builder.allocate(state.names.global(whole->name + "_sums"),
                                          MemorySpace::Symmetric,
                                          builder.tensorType(whole->type.dtype, shape)));
}

void insertSumGather(LoweringState &state, Stage &stage, Value *handles) {
  GatherInserter(state, stage, handles).run();
}

} // namespace braid
