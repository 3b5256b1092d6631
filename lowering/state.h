//===- lowering/state.h - what a pass works on ------------------------------------------------===//
//
// The passes work on one Program, and say here what later ones have to find of what they made.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/builder.h"
#include "ir/fusion.h"
#include "lowering/names.h"
#include "lowering/schedule/configuration.h"

namespace braid {

/// The way in which the GEMMs of a stage are computed.
enum class StageKind : uint8_t {
  Straight, ///< one GEMM, whole, on the caller's stream
  Local,    ///< step by step along the Stream axis; nothing moves
  Gather,   ///< the same, and each step's block comes from another device
  Reduce,   ///< each step makes a partial result for another device, and all are summed
};

/// One matmul or linear of the fusion.
struct Gemm {
  const FusionNode *node = nullptr;
  Value *dst = nullptr;   ///< whole; of f32 where a pointwise node reads it
  Value *right = nullptr; ///< B or w
  Value *bias = nullptr;  ///< may be null
  /// The tensor of the same stage whose slice is the first operand; null: the block is.
  const FusionTensor *source = nullptr;
  Value *left = nullptr; ///< whole, if there is a source
};

/// An expression of pointwise functions. Without a function it rounds a tensor.
struct Pointwise {
  const FusionTensor *tensor = nullptr; ///< the result
  size_t after = 0; ///< number of the stage's GEMMs that come before it; later ones may read it
  bool isRounding = false;
  Value *dst = nullptr; ///< whole; so are the operands
  Value *first = nullptr;
  std::vector<PointwiseStep<Value *>> steps = {};
};

/// An output that is the gathered operand.
struct Reshard {
  const FusionTensor *tensor = nullptr;
  Value *dst = nullptr;
};

/// GEMMs that share a first operand, or feed one another slice by slice. A stage that is not
/// straight becomes one pipeline: a fork, a step for each index of the Stream axis, a join. Data
/// move in one of two directions: an operand is gathered, the own block first, or a result is
/// reduced, the own block last.
struct Stage {
  StageKind kind = StageKind::Straight;
  const FusionTensor *operand = nullptr; ///< the shared first operand
  std::vector<Gemm> gemms = {};          ///< in the order of the fusion; none: it reshards
  std::vector<Pointwise> pointwise = {}; ///< likewise
  std::vector<Reshard> reshards = {};    ///< applied to the operand
  int64_t steps = 1;                     ///< extent of the Stream axis
  int64_t rows = 0; ///< leading extent of a step's block on one device; 0: the block is a vector
  /// Which rows of the operand and of what is made from it exist; nothing if all do.
  std::optional<UnevenRows> uneven = {};
  int64_t ranksPerHost = 1;
  /// Gather only. True if some result is streamed; otherwise one GEMM follows the gather and
  /// nothing overlaps.
  bool isStreamed = true;
  /// Gather only. True if a step's block is a slice of every device's, gathered by a collective;
  /// otherwise it is one device's block.
  bool gathersSlices = false;
  /// The earlier stage that has gathered the operand already, if any.
  std::optional<size_t> gatheredBy = {};

  Configuration config = {};
  bool isNamed = false; ///< a part of the schedule is for this stage alone

  Value *input = nullptr; ///< the operand as it lies on this device

  // From form-pipelines on.
  /// Steps select their block from this tensor: the operand or its gathered copy, maybe an output.
  Value *whole = nullptr;
  Value *parts = nullptr; ///< reduction: the addends, one from each rank
  /// Send buffer. Scattered reduction: partial sums for peers' rows. Collective reduction: input of
  /// each chunk's collective, whose output is `parts`. Gather into an output: the rank's own block.
  Value *sent = nullptr;
  SumOp *sum = nullptr;    ///< reduction, unless GEMMs add
  Op *firstGemm = nullptr; ///< reduction whose GEMMs add: the GEMM that has nothing to add yet
  Op *lastGemm = nullptr;  ///< reduction whose GEMMs add: the GEMM that makes the sum
  Op *first = nullptr;     ///< the first top-level node of the stage
  ForOp *loop = nullptr;   ///< the steps; insert-transfers makes it where one GEMM takes everything
  Value *block = nullptr;  ///< selected in the loop
  /// Hierarchical order only. Each step is of a host and has a loop over the other ranks of this
  /// host: the rank passes `block` on to them, and they pass on `relayed`.
  ForOp *relay = nullptr;
  Value *relayed = nullptr;
  /// Reduction in hierarchical order: the sums for other hosts, and the sums of all hosts.
  Value *given = nullptr, *hostSums = nullptr;

  // From insert-transfers on.
  /// The tensor that is sent. Gather: the rank's own block, which its GEMM reads, too. Reduction:
  /// a part, made by form-pipelines.
  Value *mine = nullptr;
  SetOp *staging = nullptr; ///< copies the own block into its slot of `whole`; null: nothing does
  IfOp *guard = nullptr;    ///< around the transfers of a step
  ForOp *gather = nullptr;  ///< all-reduce in two shots: its steps bring the other ranks' sums
  std::vector<Value *> sums = {}; ///< the buffers of these sums; insert-transfers alone uses them

  // From peel-own-step on.
  Op *ownFirst = nullptr; ///< the first node of the own step before the loop, if it was peeled

  // From split-chunks on.
  int64_t chunks = 1;    ///< row ranges a step
  int64_t tailSplit = 1; ///< the last step has this many times as many
  /// Gather: in the steps; null if there is one chunk. Reduction: around the steps, from
  /// form-pipelines on, so that the sum of a chunk overlaps with the next chunk's GEMMs.
  ForOp *chunkLoop = nullptr;

  // From assign-streams on.
  int64_t streams = 0;         ///< the stage uses stream(0) .. stream(streams - 1); 0: the caller's
  int64_t transferStreams = 0; ///< the first of these are for transfers only
  Op *ownStream = nullptr;     ///< the own step's set_current_stream
  /// The nodes that fork and join single steps, each with the block that holds it.
  llvm::SmallVector<std::pair<Block *, Op *>, 8> syncs = {};

  llvm::StringRef name() const { return operand->name; }
  /// The first tensor that the stage makes; messages name the stage by it.
  const FusionTensor &result() const {
    return gemms.empty() ? *reshards.front().tensor : *resultOf(*gemms.front().node);
  }
  /// The names of all results in the order of the fusion, reshards last.
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
  /// Its steps make one tensor only.
  bool makesOne() const { return gemms.size() + pointwise.size() + reshards.size() == 1; }
  /// Called when the steps have been unrolled.
  void forgetLoop() {
    if (first == loop)
      first = nullptr;
    if (isReduction() && isScattered())
      mine = nullptr; // it was selected in the steps
    loop = chunkLoop = gather = relay = nullptr;
    block = relayed = nullptr;
    guard = nullptr;
    chunks = tailSplit = 1;
  }
  bool multipliesWhole() const { return config.granularity() == schedule::Granularity::Whole; }
  bool isGeometric() const {
    return isGather() && config.granularity() == schedule::Granularity::Geometric;
  }
  /// Half of the last GEMM need not wait for the last blocks.
  bool halvesLastGemm() const { return isGeometric() && config.tailSplit() > 1; }
  bool isRing() const { return config.order() == schedule::Order::Ring; }
  /// A block crosses the network once for each host, whose ranks pass it on.
  bool isHierarchical() const {
    return movesByPairs() && config.order() == schedule::Order::Hierarchical;
  }
  int64_t hosts() const { return steps / ranksPerHost; }
  bool isGather() const { return kind == StageKind::Gather; }
  /// All devices take part in the transfer of a step, and no step is of the own block alone. The
  /// steps of a reduction are its chunks.
  bool isCollective() const {
    return moves() && config.transfers() == schedule::Transfers::Collective;
  }
  /// Devices send and receive, through handles.
  bool movesByPairs() const { return moves() && !isCollective(); }
  bool isReduction() const { return kind == StageKind::Reduce; }
  /// Other devices take part in it.
  bool moves() const { return isGather() || isReduction(); }
  /// Reduction: each device keeps the sum of its own rows, not of all.
  bool keepsOwnRows() const { return result().type.axes.front().kind == AxisKind::DIDx; }
  /// No kernel adds partial results: GEMMs do.
  bool addsInGemms() const { return isReduction() && config.sums() == schedule::Sums::Gemm; }
  /// An all-reduce in which each device adds its own rows, and gives their sum to all.
  bool isTwoShot() const {
    return isReduction() && !keepsOwnRows() && config.reduction() == schedule::Reduction::TwoShot;
  }
  /// The protocol of the second shot.
  Protocol sumProtocol() const {
    return config.secondShot() == schedule::SecondShot::Put ? Protocol::Put : config.protocol();
  }
  /// Reduction: each device adds its own rows, not all.
  bool isScattered() const { return keepsOwnRows() || isTwoShot(); }
  /// Gather: the output that receives the blocks; null: a buffer does. No peer reaches an output,
  /// so in pairs each rank pulls a block from where its owner has it.
  Value *gatheredOutput() const {
    // Without a GEMM and without steps, a copy to the output is all that the stage has.
    const bool isAlone = gemms.empty() && multipliesWhole();
    if (!isGather() || gathersSlices || reshards.empty() || isAlone)
      return nullptr;
    const bool isPulledFromOwners =
        config.protocol() == Protocol::Get && !isRing() && !isHierarchical();
    return isCollective() || isPulledFromOwners ? reshards.front().dst : nullptr;
  }
  /// The top-level node that holds the steps.
  Op &top() const { return isReduction() && chunkLoop ? *chunkLoop : *loop; }
  Location location() const { return result().definition->location(); }
  /// The block whose nodes are executed once a step and chunk.
  Block &stepBody() const { return chunkLoop ? chunkLoop->body : loop->body; }
};

/// Everything a pass may read and change.
struct LoweringState {
  const Fusion &fusion;
  Configurations options;
  Diagnostics &diags;

  std::unique_ptr<Program> program = {}; ///< made by find-moves
  bool isReproducible = false;           ///< see lower()
  Names names = {};
  std::vector<Stage> stages = {}; ///< in the order in which they are issued
  /// Outputs that are inputs, each with what it is a copy of.
  std::vector<std::pair<Value *, Value *>> copies = {};

  bool movesAnything() const {
    for (const Stage &stage : stages)
      if (stage.moves())
        return true;
    return false;
  }
};

} // namespace braid
