//===- lowering/stages/reduction.cpp - reductions of partial results --------------------------===//

#include "lowering/stages/reduction.h"

#include "lowering/emit.h"
#include "lowering/stages/block_rows.h"
#include "lowering/stages/gather_order.h"
#include "lowering/stages/host_order.h"
#include "lowering/stages/reduced_rows.h"
#include "lowering/stages/sum_gather.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

namespace braid {
namespace {

class ReductionFormer : Emitter {
public:
  ReductionFormer(LoweringState &state, Stage &stage)
      : Emitter(state), stage_(stage), gemm_(stage.gemms.front()), bias_(gemm_.bias),
        order_(scalars_, stage.config.order(), stage.steps) {
    gemm_.bias = nullptr; // the sum adds it once
  }

  void run() {
    builder_.setLocation(stage_.location());
    builder_.insertAtEnd(body_);
    const size_t before = body_.size();
    takeOwnRights();
    rows_.push_back(joinRows(stage_, stage_.input));
    for (Value *left : llvm::drop_begin(gemm_.lefts))
      rows_.push_back(joinRows(stage_, left));
    joinSums();
    if (stage_.isCollective())
      formCollectives();
    else if (stage_.multipliesWhole())
      formWhole();
    else if (stage_.isRing())
      formRing();
    else if (stage_.isHierarchical())
      formHosts();
    else
      formChunks();
    stage_.first = &*std::next(body_.begin(), before);
  }

private:
  using Rows = llvm::SmallVector<Value *, 1>; ///< the same rows of each pair's A

  /// Slices every replicated B to this rank's range of the contracted axis.
  void takeOwnRights() {
    const Contraction contraction = contractionOf(*gemm_.node);
    for (size_t i = 0; i < gemm_.rights.size(); ++i) {
      const FusionTensor &second = *gemm_.node->b(i);
      if (second.type.axes[contraction.second].kind != AxisKind::DIDx)
        gemm_.rights[i] =
            builder_.slice(global(second.name + "_own"), gemm_.rights[i], scalars_.rank(),
                           scalars_.add(scalars_.rank(), constant(1)));
    }
  }

  /// Reshapes the sum, the tensors computed from it, and their operands to have one row axis.
  void joinSums() {
    auto join = [&](Value *whole) {
      if (Value *&rows = sums_[whole]; whole && !rows)
        rows = joinRows(stage_, whole);
    };
    join(gemm_.dst);
    for (const Pointwise &each : stage_.pointwise) {
      join(each.first);
      for (const PointwiseStep<Value *> &step : each.steps)
        join(step.operand);
      join(each.dst);
    }
  }

  void formChunkLoop() {
    stage_.chunkLoop = builder_.forLoop(local("c"), constant(0), constant(1));
    builder_.insertAtEnd(stage_.chunkLoop->body);
  }

  void formChunks() {
    formChunkLoop();
    if (!stage_.isScattered())
      multiplyOwn(rows_);
    formLoop();
    if (stage_.isScattered()) {
      multiplyPart();
      builder_.insertAtEnd(stage_.chunkLoop->body);
      multiplyOwn(selectRows("own_block", scalars_.rank()));
    }
    addParts(stage_.parts);
  }

  void formCollectives() {
    stage_.loop = builder_.forLoop(local("i"), constant(0), constant(stage_.config.chunks()));
    builder_.insertAtEnd(stage_.loop->body);
    const Scalar *chunk = stage_.loop->index;
    stage_.mine = builder_.select(local("given"), stage_.sent, chunk);
    if (!stage_.keepsOwnRows())
      multiplyRows();
    else if (stage_.config.chunks() == 1)
      multiply(stage_.mine, rows_);
    else
      multiplyBlocks();
    addParts(builder_.select(local("come"), stage_.parts, chunk));
  }

  void multiplyRows() {
    const Rows rows = rowsOfChunk(rows_);
    multiply(builder_.select(local("part"), stage_.mine, constant(0)), rows);
  }

  /// Loops over the blocks, because the rows of a chunk are not contiguous in the operand.
  void multiplyBlocks() {
    ForOp *blocks = builder_.forLoop(local("j"), constant(0), constant(stage_.steps));
    builder_.insertAtEnd(blocks->body);
    const Rows rows = rowsOfChunk(selectRows("block", blocks->index));
    multiply(builder_.select(local("part"), stage_.mine, blocks->index), rows);
    builder_.insertAtEnd(stage_.loop->body);
  }

  /// Returns the chunk's rows in a block or a full tensor.
  Rows rowsOfChunk(Rows tensors) {
    for (Value *&tensor : tensors)
      tensor = rowsOfChunk(tensor);
    return tensors;
  }

  Value *rowsOfChunk(Value *tensor) {
    const int64_t chunks = stage_.config.chunks();
    if (!stage_.isCollective() || chunks == 1)
      return tensor;
    const Scalar *chunk = stage_.loop->index, *rows = constant(stage_.rows / chunks);
    return builder_.slice(local(tensor->name + "_rows"), tensor, scalars_.mul(chunk, rows),
                          scalars_.mul(scalars_.add(chunk, constant(1)), rows));
  }

  /// In a ring, every rank starts with the rows of rank + 1.
  Op *multiplyFirst() {
    const Scalar *rank = order_.source(constant(1));
    const Rows rows = selectRows("first_block", rank);
    return multiply(selectBlock(stage_, local("first_part"), stage_.sent, constant(0), rank), rows);
  }

  /// Each GEMM except the first adds the sum received for its rows. Its result is sent to the next
  /// rank, except that the result for the local rows is the final sum.
  void formRing() {
    formChunkLoop();
    stage_.firstGemm = multiplyFirst();
    stage_.loop = builder_.forLoop(local("i"), constant(2), constant(stage_.steps));
    builder_.insertAtEnd(stage_.loop->body);
    const Scalar *step = stage_.loop->index, *rank = order_.source(step);
    const Rows rows = selectRows("block", rank);
    stage_.block = rows.front();
    stage_.mine =
        selectBlock(stage_, local("part"), stage_.sent, scalars_.sub(step, constant(1)), rank);
    multiply(stage_.mine, rows, selectCome(step, rank));
    builder_.insertAtEnd(stage_.chunkLoop->body);
    const Rows own = selectRows("own_block", scalars_.rank());
    Value *come = selectCome(constant(stage_.steps), scalars_.rank());
    if (!stage_.own) {
      stage_.lastGemm = multiply(selectSummed(gemm_.dst), own, come);
      return;
    }
    Value *sum = selectBlock(stage_, local("own_part"), stage_.own, constant(0), scalars_.rank());
    stage_.lastGemm = multiply(sum, own, come);
    addParts(stage_.own);
  }

  /// Returns the sum received in the previous step for the rows of `rank`.
  Value *selectCome(const Scalar *step, const Scalar *rank) {
    return selectBlock(stage_, local("come"), stage_.parts, scalars_.sub(step, constant(2)), rank);
  }

  /// For each host, adds the partial results that the local host has computed for one rank of that
  /// host: the rank with the same local index as this rank. Then sends the sum to that rank.
  void formHosts() {
    const HostOrder order(scalars_, stage_);
    const Scalar *one = constant(1), *last = constant(stage_.hosts());
    formChunkLoop();
    stage_.loop = builder_.forLoop(local("host"), one, scalars_.add(last, one));
    builder_.insertAtEnd(stage_.loop->body);
    const Scalar *host = stage_.loop->index, *before = scalars_.sub(host, one);
    Value *parts = builder_.select(local("parts"), stage_.parts, before);
    formParts(order);
    builder_.insertAtEnd(stage_.loop->body);
    const Scalar *rank = order.far(host);
    multiply(selectBlock(stage_, local("own_part"), parts, order.number(), rank),
             selectRows("own_block", rank));
    stage_.guard = builder_.ifOp(scalars_.binary(ScalarKind::Ne, host, last));
    builder_.insertAtEnd(stage_.guard->thenBlock);
    addOfHost(selectBlock(stage_, local("given"), stage_.given, before, rank), parts, rank);
    builder_.insertAtEnd(stage_.guard->elseBlock);
    rank = scalars_.rank();
    addOfHost(selectBlock(stage_, local("own_sum"), stage_.hostSums, order.hostOf(rank), rank),
              parts, rank);
    builder_.insertAtEnd(stage_.chunkLoop->body);
    addParts(stage_.hostSums);
  }

  /// Computes the partial results that other ranks on this host will sum.
  void formParts(const HostOrder &order) {
    stage_.relay = builder_.forLoop(local("i"), constant(1), constant(stage_.ranksPerHost));
    builder_.insertAtEnd(stage_.relay->body);
    const Scalar *rank = order.block(stage_.loop->index, stage_.relay->index);
    const Rows rows = selectRows("block", rank);
    stage_.mine = select(local("part"), stage_.sent, rank);
    multiply(stage_.mine, rows);
  }

  void addOfHost(Value *dst, Value *parts, const Scalar *rank) {
    const Scalar *rows = rowsOfBlock(scalars_, stage_, rank);
    builder_.sum(dst, parts, rows ? constant(0) : nullptr, rows);
  }

  /// Emits one GEMM over all rows, then all transfers. To overlap them, the copy of the local
  /// partial sum to its slot is issued after the transfers if they are on the caller's stream, and
  /// otherwise before the transfer streams fork.
  void formWhole() {
    const bool isPushedHere = stage_.config.placement() == schedule::Placement::Caller;
    if (stage_.isScattered()) {
      multiplyAll();
    } else {
      multiplyOwn(rows_);
    }
    if (stage_.isScattered() && !isPushedHere)
      copyOwn();
    formLoop();
    if (stage_.isScattered())
      stage_.mine = select(local("part"), stage_.sent, peer());
    builder_.insertAtEnd(body_);
    if (stage_.isScattered() && isPushedHere)
      copyOwn();
    addParts(stage_.parts);
  }

  /// Emits one GEMM for the rows of all ranks, which are contiguous in operand and result.
  void multiplyAll() {
    const bool areBlocks = liesInBlocks(state_.fusion, stage_);
    Value *sent = areBlocks || stage_.uneven ? existingRows(stage_.uneven, stage_.sent)
                                             : builder_.flatten(name("sent_rows"), stage_.sent);
    Rows rows = rows_;
    for (Value *&each : rows)
      each = areBlocks ? existingRows(stage_.uneven, each) : each;
    multiply(sent, rows);
  }

  void copyOwn() {
    Value *made = select(name("own"), stage_.sent, scalars_.rank());
    builder_.set(select(name("own_part"), stage_.parts, scalars_.rank()), made);
  }

  void formLoop() {
    stage_.loop = builder_.forLoop(local("i"), constant(1), constant(stage_.steps));
    if (stage_.isScattered())
      builder_.insertAtEnd(stage_.loop->body);
  }

  void multiplyPart() {
    const Rows rows = selectRows("block", peer());
    stage_.block = rows.front();
    stage_.mine = select(local("part"), stage_.sent, peer());
    multiply(stage_.mine, rows);
  }

  void multiplyOwn(const Rows &rows) {
    const std::string as = stage_.multipliesWhole() ? name("own_part") : local("own_part");
    Value *part = select(as, stage_.parts, scalars_.rank());
    multiply(part, rows);
    if (!stage_.isScattered())
      stage_.mine = part;
  }

  Op *multiply(Value *dst, const Rows &rows, Value *addend = nullptr) {
    return emitGemm(gemm_, dst, rows, addend);
  }

  void addParts(Value *parts) {
    llvm::DenseMap<Value *, Value *> summed;
    auto summedOf = [&](Value *whole) {
      Value *&rows = summed[whole];
      return rows ? rows : rows = rowsOfChunk(selectSummed(whole));
    };
    const Scalar *rows = rowsOfBlock(scalars_, stage_, scalars_.rank());
    stage_.sum =
        builder_.sum(summedOf(gemm_.dst), parts, rows ? constant(0) : nullptr, rows, bias_);
    for (const Pointwise &each : stage_.pointwise)
      emitPointwise(each, summedOf);
  }

  /// Returns the rows that this rank sums, in the result or in a tensor of the same shape.
  Value *selectSummed(Value *whole) {
    if (!stage_.isScattered())
      return sums_[whole];
    const Scalar *rank = scalars_.rank();
    const std::string as = whole->name + (whole == gemm_.dst ? "_sum" : "_own");
    return selectReduced(stage_, stage_.chunkLoop ? local(as) : global(as), sums_[whole],
                         stage_.keepsOwnRows() ? constant(0) : rank, rank);
  }

  /// Returns the rows of `rank` in each pair's A. The rows of the first pair are named `as`; for
  /// the other pairs, the pair's number is appended.
  Rows selectRows(const std::string &as, const Scalar *rank) {
    Rows rows;
    for (size_t i = 0; i < rows_.size(); ++i)
      rows.push_back(selectReduced(stage_, local(i == 0 ? as : as + "_" + std::to_string(i + 1)),
                                   rows_[i], rank, rank));
    return rows;
  }

  /// Returns the rows of `rank` in a tensor that contains the rows of all ranks.
  Value *select(const std::string &as, Value *tensor, const Scalar *rank) {
    return selectBlock(stage_, as, tensor, rank);
  }

  /// Returns the rank whose rows the current step multiplies.
  const Scalar *peer() { return order_.source(stage_.loop->index); }

  std::string name(llvm::StringRef what) { return global((gemm_.dst->name + "_" + what).str()); }

  Stage &stage_;
  Gemm gemm_; ///< without its bias
  Value *const bias_;
  const GatherOrder order_; ///< not used in the hierarchical order
  Rows rows_;               ///< each pair's A, with its rows as one axis
  /// Maps each tensor that joinSums() reshapes to its alias with a single row axis.
  llvm::DenseMap<Value *, Value *> sums_;
};

} // namespace

bool canEndInGemm(const Stage &stage) {
  const Gemm &gemm = stage.gemms.front();
  const DType partial = partialType(*gemm.node), result = resultOf(*gemm.node)->type.dtype;
  // A function in a later stage may read the unrounded result.
  const bool isRounded = !gemm.dst || gemm.dst->type.dtype == result;
  return stage.pointwise.empty() && !gemm.node->bias() && partial == result && isRounded;
}

void allocateParts(LoweringState &state, Stage &stage, ProgramBuilder &builder) {
  const FusionNode &node = *stage.gemms.front().node;
  auto allocate = [&](const char *what, llvm::ArrayRef<int64_t> leading) {
    Shape shape = partShape(state.fusion, stage);
    if (stage.isCollective() && stage.rows > 0)
      shape.front() /= stage.config.chunks();
    shape.insert(shape.begin(), leading.begin(), leading.end());
    return builder.allocate(state.names.global(resultOf(node)->name + what), MemorySpace::Device,
                            builder.tensorType(partialType(node), shape));
  };
  builder.setLocation(stage.location());
  if (stage.isCollective()) {
    const int64_t chunks = stage.config.chunks();
    stage.sent = allocate("_sent", {chunks, stage.keepsOwnRows() ? stage.steps : 1});
    stage.parts = allocate("_parts", {chunks, 1});
    return;
  }
  if (stage.isHierarchical()) {
    stage.parts = allocate("_parts", {stage.hosts(), stage.ranksPerHost});
    stage.sent = allocate("_sent", {stage.steps});
    stage.given = allocate("_given", {stage.hosts() - 1});
    stage.hostSums = allocate("_host_sums", {stage.hosts()});
    return;
  }
  const int64_t entries = stage.isRing() ? stage.steps - 1 : stage.steps;
  stage.parts = allocate("_parts", {entries});
  if (stage.isScattered())
    stage.sent = allocate("_sent", {entries});
  if (stage.isRing() && !canEndInGemm(stage))
    stage.own = allocate("_own", {1});
}

void formReduction(LoweringState &state, Stage &stage) { ReductionFormer(state, stage).run(); }

llvm::SmallVector<Value *, 2> shareParts(const Stage &stage) {
  const bool isGet = stage.config.protocol() == Protocol::Get;
  llvm::SmallVector<Value *, 2> reached = {isGet && stage.sent ? stage.sent : stage.parts};
  if (stage.isHierarchical())
    reached.push_back(isGet ? stage.given : stage.hostSums);
  for (Value *buffer : reached)
    llvm::cast<AllocateOp>(buffer->definition)->space = MemorySpace::Symmetric;
  return reached;
}

namespace {

/// Inserts the transfers of partial sums.
class PartMover : Emitter {
public:
  PartMover(LoweringState &state, Stage &stage, Value *handles)
      : Emitter(state), stage_(stage), handles_(handles),
        order_(scalars_, stage.config.order(), stage.steps) {
    builder_.setLocation(stage.location());
  }

  void run() {
    if (stage_.isRing())
      return moveInRing();
    if (stage_.isHierarchical())
      return moveInHosts();
    const Scalar *step = stage_.loop->index, *from = order_.target(step);
    auto slot = [&] {
      return selectBlock(stage_, local("slot"), stage_.parts, from, scalars_.rank());
    };
    Block &body = stage_.loop->body;
    exchange(body, body.begin(), body.end(), {stage_.mine, order_.source(step), from, slot});
  }

private:
  /// A partial sum to send, and a receive into the buffer that `slot` selects.
  struct Exchange {
    Value *given;
    const Scalar *to, *from;
    llvm::function_ref<Value *()> slot;
    std::string prefix = ""; ///< prepended to names
  };

  /// Inserts an exchange into `body` at `late`. Under the put protocol, the receive is inserted at
  /// `early`.
  void exchange(Block &body, Block::iterator early, Block::iterator late, const Exchange &each) {
    const bool isGet = stage_.config.protocol() == Protocol::Get;
    Value *received = nullptr;
    auto receive = [&] {
      Value *slot = each.slot();
      received = builder_.receive(local(each.prefix + "r"), slot, each.from, handles_);
    };
    // Under the put protocol, the receive comes first in the step, so that no other work delays its
    // ready signal.
    builder_.setInsertionPoint(body, early);
    if (!isGet)
      receive();
    builder_.setInsertionPoint(body, late);
    Value *sent = builder_.send(local(each.prefix + "s"), each.given, each.to, handles_);
    if (isGet)
      receive();
    // Each rank posts its send before it waits for its receive, so that the waits cannot deadlock.
    builder_.wait(isGet ? received : sent);
    builder_.wait(isGet ? sent : received);
  }

  /// Transfers partial sums within a host, and the host's sums to other hosts.
  void moveInHosts() {
    const HostOrder order(scalars_, stage_);
    const Scalar *host = stage_.loop->index, *step = stage_.relay->index;
    auto partSlot = [&] {
      Value *come = builder_.select(local("come"), stage_.parts, scalars_.sub(host, constant(1)));
      return selectBlock(stage_, local("slot"), come, order.nearerNumber(step), order.far(host));
    };
    Block &parts = stage_.relay->body, &sums = stage_.guard->thenBlock;
    exchange(parts, parts.begin(), parts.end(),
             {stage_.mine, order.near(step), order.nearer(step), partSlot});
    auto sumSlot = [&] {
      return selectBlock(stage_, local("slot"), stage_.hostSums, order.hostOf(order.farther(host)),
                         scalars_.rank());
    };
    exchange(sums, sums.end(), sums.end(),
             {llvm::cast<SumOp>(sums.back()).dst, order.far(host), order.farther(host), sumSlot});
  }

  /// Each step sends the result of its GEMM to one neighbor. The next step's GEMM adds the sum
  /// received from the other neighbor.
  void moveInRing() {
    const Scalar *one = constant(1);
    auto moveStep = [&](Block &body, Block::iterator end, const Scalar *step, Value *given,
                        const std::string &prefix) {
      auto slot = [&] {
        return selectBlock(stage_, local(prefix + "slot"), stage_.parts, scalars_.sub(step, one),
                           order_.source(scalars_.add(step, one)));
      };
      exchange(body, body.begin(), end,
               {given, order_.target(one), order_.source(one), slot, prefix});
    };
    moveStep(stage_.chunkLoop->body, stage_.loop->getIterator(), one, writtenBy(*stage_.firstGemm),
             "first_");
    moveStep(stage_.loop->body, stage_.loop->body.end(), stage_.loop->index, stage_.mine, "");
    stage_.firstGemm = nullptr; // no longer needed
  }

  Stage &stage_;
  Value *handles_;
  const GatherOrder order_; ///< not used in the hierarchical order
};

} // namespace

void insertReductionTransfers(LoweringState &state, Stage &stage, Value *handles,
                              Value *sumHandles) {
  PartMover(state, stage, handles).run();
  if (stage.isTwoShot())
    insertSumGather(state, stage, sumHandles);
}

void insertReductionCollective(LoweringState &state, const Stage &stage) {
  ProgramBuilder builder(*state.program);
  builder.setLocation(stage.location());
  builder.insertBefore(stage.loop->body, *stage.sum);
  const CollectiveKind kind =
      stage.keepsOwnRows() ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce;
  builder.wait(builder.collective(state.names.local("c"), kind, ReductionOperator::Sum,
                                  stage.sum->parts, stage.mine));
}

bool reduceIntoResult(Stage &stage) {
  SumOp *sum = stage.sum;
  if (!sum || !stage.isReduction() || !stage.isCollective() || sum->bias ||
      sum->dst->type.dtype != sum->parts->type.dtype)
    return false;
  Block &block = stage.loop->body;
  auto reducesParts = [&](const Op &op) {
    const auto *collective = llvm::dyn_cast<CollectiveOp>(&op);
    return collective && collective->dst == sum->parts;
  };
  const auto found = llvm::find_if(block, reducesParts);
  if (found == block.end())
    return false;
  llvm::cast<CollectiveOp>(*found).dst = sum->dst;
  block.erase(sum->getIterator());
  stage.sum = nullptr;
  return true;
}

} // namespace braid
