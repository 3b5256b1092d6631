//===- lowering/state.h - the state shared by all passes --------------------------------------===//
//
// All passes rewrite one Program. The state refers to the nodes and tensors that later passes need.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/builder.h"
#include "ir/fusion.h"
#include "lowering/names.h"
#include "lowering/schedule/configuration.h"

namespace braid {

/// The execution and communication pattern of a stage.
enum class StageKind : uint8_t {
  Straight, ///< one GEMM over the full operand, on the caller's stream
  Local,    ///< step by step along the Stream axis, without communication
  Gather,   ///< like Local, but each step receives its block from another device
  Reduce,   ///< each step computes a partial result to be summed on another device
};

/// One matmul or linear in the fusion, which may add the products of several pairs of operands.
struct Gemm {
  const FusionNode *node = nullptr;
  Value *dst = nullptr;  ///< the full result buffer; f32 if a pointwise node reads it
  Value *bias = nullptr; ///< may be null
  /// The tensor computed in the same stage whose slice is the first operand; null if the first
  /// operand is the stage's block.
  const FusionTensor *source = nullptr;
  llvm::SmallVector<Value *, 1> rights = {}; ///< the second operand of each pair
  /// The full buffer of the first operand of each pair; null for the first pair without a source.
  llvm::SmallVector<Value *, 1> lefts = {};
};

/// A chain of pointwise functions. If it is empty, the tensor is only rounded.
struct Pointwise {
  const FusionTensor *tensor = nullptr; ///< the result
  size_t after = 0; ///< number of the stage's GEMMs that precede it; later GEMMs may read `tensor`
  bool isRounding = false;
  Value *dst = nullptr; ///< the full result buffer; the operands are also full buffers
  Value *first = nullptr;
  std::vector<PointwiseStep<Value *>> steps = {};
};

/// An output that is a copy of the gathered operand.
struct Reshard {
  const FusionTensor *tensor = nullptr;
  Value *dst = nullptr;
};

/// GEMMs that share a first operand, or that consume each other's results slice by slice. Every
/// stage that is not straight becomes one pipeline: a fork, one step for each index of the Stream
/// axis, and a join. A stage that communicates either gathers an operand, starting with the local
/// block, or reduces a result, ending with the local block.
struct Stage {
  StageKind kind = StageKind::Straight;
  const FusionTensor *operand = nullptr; ///< the shared first operand
  std::vector<Gemm> gemms = {};          ///< in fusion order; empty for a reshard
  std::vector<Pointwise> pointwise = {}; ///< in fusion order
  std::vector<Reshard> reshards = {};    ///< outputs that copy the operand
  int64_t steps = 1;                     ///< extent of the Stream axis
  int64_t rows = 0; ///< leading extent of a step's block on one device; 0 if the block is a vector
  /// The padding of the operand and of all results; unset if there is none.
  std::optional<UnevenRows> uneven = {};
  int64_t ranksPerHost = 1;
  /// Gather only. True if at least one result is streamed; otherwise a single GEMM follows the
  /// gather without overlap.
  bool isStreamed = true;
  /// Gather only. True if each step gathers one slice of every device's block with a collective;
  /// false if each step receives one device's block.
  bool gathersSlices = false;
  /// Index of the earlier stage that gathers the same operand, if any.
  std::optional<size_t> gatheredBy = {};

  Configuration config = {};
  bool isNamed = false; ///< true if the schedule has an entry for this stage

  Value *input = nullptr; ///< the local operand

  // Set by form-pipelines and later passes.
  /// The tensor from which steps select their blocks: the operand or its gathered copy, which may
  /// be an output.
  Value *whole = nullptr;
  Value *parts = nullptr; ///< reductions only: one addend per rank
  /// Send buffer. Scattered reduction: partial sums for peers' rows. Collective reduction: input of
  /// each chunk's collective, which outputs `parts`. Gather into an output: the local block.
  Value *sent = nullptr;
  Value *own = nullptr;    ///< ring reduction: the last GEMM's result, if `sum` reads it
  SumOp *sum = nullptr;    ///< reduction only; null if a GEMM computes the result
  Op *firstGemm = nullptr; ///< ring reduction: the first GEMM, which has no addend
  Op *lastGemm = nullptr;  ///< ring reduction: the (first) GEMM that computes the final sum
  Op *first = nullptr;     ///< the first top-level node of the stage
  ForOp *loop = nullptr;   ///< the step loop; created by insert-transfers if granularity=whole
  Value *block = nullptr;  ///< the block selected in the loop body
  /// Hierarchical order only. Each step handles one host and contains this loop over the other
  /// ranks on the local host: the rank forwards `block` to them and receives `relayed` from them.
  ForOp *relay = nullptr;
  Value *relayed = nullptr;
  /// Hierarchical reduction: the sums sent to other hosts, and the sums of all hosts.
  Value *given = nullptr, *hostSums = nullptr;

  // Set by insert-transfers and later passes.
  /// The tensor that the rank sends. Gather: the local block, which the local GEMM also reads.
  /// Reduction: a partial sum created by form-pipelines.
  Value *mine = nullptr;
  /// copies the local block into its slot of `whole`; null if no copy is needed
  SetOp *staging = nullptr;
  IfOp *guard = nullptr;   ///< encloses a step's transfers
  ForOp *gather = nullptr; ///< two-shot all-reduce: the loop that gathers the other ranks' sums
  std::vector<Value *> sums = {}; ///< the buffers for these sums; used only by insert-transfers

  // Set by peel-own-step and later passes.
  Op *ownFirst = nullptr; ///< first node of the local step, if the step was peeled off the loop

  // Set by split-chunks and later passes.
  int64_t chunks = 1;    ///< row ranges per step
  int64_t tailSplit = 1; ///< the last step has this many times `chunks` row ranges
  /// Gather: the loop inside each step; null for a single chunk. Reduction: the loop around the
  /// steps, created by form-pipelines, so that one chunk's sum overlaps the next chunk's GEMMs.
  ForOp *chunkLoop = nullptr;

  // Set by assign-streams and later passes.
  /// the stage uses stream(0) .. stream(streams - 1), or the caller's stream if `streams` is 0
  int64_t streams = 0;
  int64_t transferStreams = 0; ///< GEMMs do not use the first `transferStreams` streams
  Op *ownStream = nullptr;     ///< the local step's set_current_stream

  llvm::StringRef name() const { return operand->name; }
  /// Returns the first result of the stage, which names the stage in messages.
  const FusionTensor &result() const {
    return gemms.empty() ? *reshards.front().tensor : *resultOf(*gemms.front().node);
  }
  /// Returns the names of all results in fusion order, with reshards last.
  std::vector<std::string> tensors() const {
    std::vector<std::string> names;
    for (const Gemm &gemm : gemms)
      names.push_back(resultOf(*gemm.node)->name);
    for (const Pointwise &each : pointwise)
      if (!each.isRounding)
        names.push_back(each.tensor->name);
    for (const Reshard &reshard : reshards)
      names.push_back(reshard.tensor->name);
    return names;
  }
  /// True if the stage has a single result.
  bool makesOne() const { return gemms.size() + pointwise.size() + reshards.size() == 1; }
  /// True for the first operand of any pair after the first. Each step reads a slice of it.
  bool isAdded(const Value &tensor) const {
    return llvm::any_of(gemms, [&](const Gemm &gemm) {
      return llvm::is_contained(llvm::drop_begin(gemm.lefts), &tensor);
    });
  }
  /// Clears the references to loops that have been unrolled.
  void forgetLoop() {
    if (first == loop)
      first = nullptr;
    if (isReduction() && isScattered())
      mine = nullptr; // was selected inside the loop
    loop = chunkLoop = gather = relay = nullptr;
    block = relayed = nullptr;
    guard = nullptr;
    chunks = tailSplit = 1;
  }
  /// Gather: true if several GEMMs read the operand step by step, and none reads another's result.
  bool isShared() const {
    return isGather() && isStreamed && gemms.size() > 1 &&
           llvm::none_of(gemms, [](const Gemm &gemm) { return gemm.source; });
  }
  bool multipliesWhole() const { return config.granularity() == schedule::Granularity::Whole; }
  bool isGeometric() const {
    return isGather() && config.granularity() == schedule::Granularity::Geometric;
  }
  /// True if the last GEMM is split in two, so that its first half need not wait for the last
  /// blocks.
  bool halvesLastGemm() const { return isGeometric() && config.tailSplit() > 1; }
  bool isRing() const { return config.order() == schedule::Order::Ring; }
  /// True if a block is sent over the network once per remote host, whose ranks then forward it.
  bool isHierarchical() const {
    return movesByPairs() && config.order() == schedule::Order::Hierarchical;
  }
  int64_t hosts() const { return steps / ranksPerHost; }
  bool isGather() const { return kind == StageKind::Gather; }
  /// True if all devices participate in each transfer, so that no step processes only the local
  /// block. In a collective reduction, each step processes one chunk.
  bool isCollective() const {
    return moves() && config.transfers() == schedule::Transfers::Collective;
  }
  /// True if devices exchange data by point-to-point transfers through handles.
  bool movesByPairs() const { return moves() && !isCollective(); }
  bool isReduction() const { return kind == StageKind::Reduce; }
  /// True if the stage communicates.
  bool moves() const { return isGather() || isReduction(); }
  /// Reduction: true if each device keeps only the sum of its local rows.
  bool keepsOwnRows() const { return result().type.axes.front().kind == AxisKind::DIDx; }
  /// True for an all-reduce in which each device sums its local rows and sends the sums to all
  /// other devices.
  bool isTwoShot() const {
    return isReduction() && !keepsOwnRows() && config.reduction() == schedule::Reduction::TwoShot;
  }
  /// Returns the protocol of the second shot.
  Protocol sumProtocol() const {
    return config.secondShot() == schedule::SecondShot::Put ? Protocol::Put : config.protocol();
  }
  /// Reduction: true if each device sums only its local rows.
  bool isScattered() const { return keepsOwnRows() || isTwoShot(); }
  /// Gather: returns the output that receives the blocks, or null if they need a separate buffer.
  /// Peers cannot access outputs, so point-to-point transfers must pull blocks from their owners.
  Value *gatheredOutput() const {
    // A stage without GEMMs or steps only copies the operand to the output.
    const bool isAlone = gemms.empty() && multipliesWhole();
    if (!isGather() || gathersSlices || reshards.empty() || isAlone)
      return nullptr;
    const bool isPulledFromOwners =
        config.protocol() == Protocol::Get && !isRing() && !isHierarchical();
    return isCollective() || isPulledFromOwners ? reshards.front().dst : nullptr;
  }
  /// Gather: returns the tensor that contains all blocks after the last step.
  Value *gathered() const { return reshards.empty() ? whole : reshards.front().dst; }
  /// Returns the top-level node that contains the steps.
  Op &top() const { return isReduction() && chunkLoop ? *chunkLoop : *loop; }
  Location location() const { return result().definition->location; }
  /// Returns the block whose nodes run once per step and chunk.
  Block &stepBody() const { return chunkLoop ? chunkLoop->body : loop->body; }
};

/// The state that all passes read and modify.
struct LoweringState {
  const Fusion &fusion;
  Configurations options;
  Diagnostics &diags;

  std::unique_ptr<Program> program = {}; ///< created by find-moves
  bool isReproducible = false;           ///< see lower()
  Names names = {};
  std::vector<Stage> stages = {}; ///< in issue order
  /// The outputs that are also inputs, each paired with the input that is copied to it.
  std::vector<std::pair<Value *, Value *>> copies = {};
};

} // namespace braid
