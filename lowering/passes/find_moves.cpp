//===- lowering/passes/find_moves.cpp - decides what moves, and groups GEMMs into stages ------===//
//
// Compares the axis kinds of every GEMM's operands and result. Reports every GEMM that cannot be
// lowered, and groups the others into stages (see state.h). Each GEMM joins the earliest stage that
// its operands allow, so that an operand shared by several GEMMs is gathered once. Then creates a
// program that contains only the signature and the allocations of intermediate tensors.
//===----------------------------------------------------------------------------------------===//

#include "lowering/emit.h"
#include "lowering/passes/passes.h"
#include "lowering/stages/advice.h"
#include "lowering/stages/configure_stages.h"
#include "lowering/stages/elementwise.h"
#include "lowering/stages/legality.h"
#include "lowering/stages/reduced_rows.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace braid {
namespace {

/// Checks that an input that is also an output can be copied by a single node.
bool checkOutput(const LoweringState &state, const FusionTensor &output) {
  const std::optional<UnevenRows> uneven = state.fusion.unevenRows(output.type);
  if (!uneven || uneven->axis == 1 || output.definition->kind != FusionOpKind::Input)
    return true;
  return state.diags.error(output.location)
         << "cannot copy %" << output.name << " to an output: axis " << uneven->axis
         << " has padding rows, which are supported only on the axis directly after the leading "
            "axis; use an extent that divides evenly";
}

/// Reports "cannot lower %C: REASON; REASON; ADVICE, or ADVICE, would be accepted".
bool refuse(const LoweringState &state, const FusionNode &node, llvm::ArrayRef<Refusal> refusals,
            std::vector<std::string> advice) {
  std::string message = "cannot lower %" + resultOf(node)->name + ": ";
  for (const Refusal &refusal : refusals) {
    message += refusal.reason + "; ";
    if (advice.empty() && !refusal.otherwise.empty())
      advice.push_back(refusal.otherwise);
  }
  message += advice.empty() ? "no other placement of its tensors"
                            : llvm::join(advice, ", or ") + (advice.size() > 1 ? "," : "");
  return state.diags.error(node.location) << message << " would be accepted";
}

bool checkAll(LoweringState &state) {
  bool isFine = true;
  std::optional<Adviser> adviser;
  for (const auto &node : state.fusion.nodes()) {
    const std::vector<Refusal> refusals = whyNotLowered(state.fusion, *node);
    if (refusals.empty())
      continue;
    if (!adviser)
      adviser.emplace(state.fusion);
    isFine = refuse(state, *node, refusals, adviser->adviceFor(*node));
  }
  for (const FusionTensor *output : state.fusion.outputs())
    isFine &= checkOutput(state, *output);
  return isFine;
}

/// Returns the kind of stage that `node` alone would form.
StageKind kindOf(const Fusion &fusion, const FusionNode &node) {
  if (isGemm(node) && isContractedOverDevices(node) && fusion.ranks() > 1)
    return StageKind::Reduce;
  const Axis &to = resultOf(node)->type.axes.front();
  const Axis &from = originOf(*node.operands[0]).type.axes.front();
  const bool hasRows = !isGemm(node) || contractionOf(node).first > 0;
  if (hasRows && isSplit(fusion, from) && to.kind != AxisKind::DIDx)
    return StageKind::Gather;
  if (isGemm(node) && gathersSlices(fusion, node))
    return StageKind::Gather;
  return to.kind == AxisKind::Stream ? StageKind::Local : StageKind::Straight;
}

/// True if the tensor needs a separate f32 buffer, because pointwise nodes read unrounded values.
bool isExactApart(const TensorUses &uses, const FusionTensor &tensor) {
  return sizeOf(tensor.type.dtype) == 2 && uses.isExact(tensor);
}

/// Groups GEMMs, together with their pointwise nodes and reshards, into stages.
class Grouper {
public:
  explicit Grouper(LoweringState &state) : state_(state), uses_(state.fusion) {}

  void add(const FusionNode &node) {
    if (isGemm(node))
      addGemm(node);
    else if (node.kind == FusionOpKind::Pointwise)
      addPointwise(node);
    else if (node.kind == FusionOpKind::Reshard)
      addReshard(node);
  }

private:
  void addGemm(const FusionNode &node) {
    StageKind kind = kindOf(state_.fusion, node);
    const bool isWhole = kind == StageKind::Gather && !isStreamed(operandOf(node));
    const bool isAlone = kind == StageKind::Straight || kind == StageKind::Reduce || isWhole;
    size_t index = isAlone ? state_.stages.size() : findStage(node);
    if (index == state_.stages.size())
      addStage(node, kind);
    Stage &stage = state_.stages[index];
    const FusionTensor &operand = operandOf(node), &result = *resultOf(node);
    stage.gemms.push_back({.node = &node, .source = isMadeBy(index, operand) ? &operand : nullptr});
    if (stage.isReduction())
      countReducedRows(state_.fusion, stage);
    else if (contractionOf(node).first < 2)
      stage.rows = 0; // all rows of a block are needed at once
    stageOf_[&result] = index;
    addRounding(index, result);
  }

  /// Adds the node to the latest stage that computes one of its operands.
  void addPointwise(const FusionNode &node) {
    const FusionTensor &result = *resultOf(node);
    size_t index = 0;
    for (const FusionTensor *operand : node.operands)
      if (auto made = stageOf_.find(operand); made != stageOf_.end())
        index = std::max(index, made->second);
    stageOf_[&result] = index;
    if (uses_.isFolded(result))
      return;
    Stage &stage = state_.stages[index];
    stage.pointwise.push_back({.tensor = &result, .after = stage.gemms.size()});
    addRounding(index, result);
  }

  /// If a tensor has an unrounded buffer and its rounded value is also needed, adds a node that
  /// rounds it.
  void addRounding(size_t index, const FusionTensor &tensor) {
    Stage &stage = state_.stages[index];
    if (isExactApart(uses_, tensor) && uses_.isRounded(tensor))
      stage.pointwise.push_back(
          {.tensor = &tensor, .after = stage.gemms.size(), .isRounding = true});
  }

  /// Adds a reshard, if its result is an output, to the stage that gathers the reshard's operand.
  void addReshard(const FusionNode &node) {
    const FusionTensor &result = *resultOf(node), &operand = operandOf(node);
    if (!llvm::is_contained(state_.fusion.outputs(), &result))
      return; // the GEMM that reads the result gathers the operand
    auto hasSteps = [&](const Stage &stage) {
      return (stage.isGather() || stage.kind == StageKind::Local) && stage.operand == &operand;
    };
    auto stage = llvm::find_if(state_.stages, hasSteps);
    if (stage == state_.stages.end()) {
      addStage(node, kindOf(state_.fusion, node));
      stage = std::prev(state_.stages.end());
    }
    stage->reshards.push_back({.tensor = &result});
  }

  /// Returns the first operand of a GEMM, or the tensor that a reshard moves.
  static const FusionTensor &operandOf(const FusionNode &node) {
    return originOf(*node.operands[0]);
  }

  bool isMadeBy(size_t stage, const FusionTensor &tensor) const {
    auto made = stageOf_.find(&tensor);
    return made != stageOf_.end() && made->second == stage;
  }

  /// Returns the index of the first stage whose steps can also compute `node`, or the number of
  /// stages if there is none.
  size_t findStage(const FusionNode &node) const {
    size_t index = 0;
    while (index < state_.stages.size() && !canJoin(state_.stages[index], index, node))
      ++index;
    return index;
  }

  bool canJoin(const Stage &stage, size_t index, const FusionNode &node) const {
    const FusionTensor &first = operandOf(node);
    const bool isOfOperand = stage.operand == &first;
    const bool isFed = isOfOperand || isMadeBy(index, first);
    const bool hasSlices = isOfOperand && stage.gathersSlices;
    return gathersSlices(state_.fusion, node) == hasSlices && stage.kind != StageKind::Straight &&
           !stage.isReduction() && stage.isStreamed && isFed &&
           llvm::all_of(llvm::drop_begin(node.operands),
                        [&](const FusionTensor *t) { return isReadyBefore(*t, index); });
  }

  bool isReadyBefore(const FusionTensor &tensor, size_t stage) const {
    auto found = stageOf_.find(&tensor);
    return found == stageOf_.end() || found->second < stage;
  }

  /// True if any GEMM or reshard that reads `operand` has a streamed result. All GEMMs that gather
  /// `operand` then process it step by step.
  bool isStreamed(const FusionTensor &operand) const {
    return llvm::any_of(state_.fusion.nodes(), [&](const auto &node) {
      return (isGemm(*node) || node->kind == FusionOpKind::Reshard) &&
             &operandOf(*node) == &operand &&
             resultOf(*node)->type.axes.front().kind == AxisKind::Stream;
    });
  }

  void addStage(const FusionNode &node, StageKind kind) {
    Stage stage{.kind = kind, .operand = &operandOf(node)};
    Shape shape = state_.fusion.localShape(stage.operand->type);
    stage.uneven = state_.fusion.unevenRows(stage.operand->type);
    if (kind != StageKind::Straight && kind != StageKind::Reduce)
      stage.steps = state_.fusion.globalShape(stage.operand->type).front();
    if (kind != StageKind::Reduce && shape.size() > 2)
      stage.rows = shape[1];
    stage.gathersSlices =
        kind == StageKind::Gather && isGemm(node) && gathersSlices(state_.fusion, node);
    stage.isStreamed = kind != StageKind::Gather || isStreamed(*stage.operand);
    if (kind == StageKind::Gather)
      reuseGathered(stage);
    state_.stages.push_back(std::move(stage));
  }

  /// Makes the stage local if an earlier stage already gathers the operand.
  void reuseGathered(Stage &stage) {
    for (size_t i = 0; i < state_.stages.size(); ++i) {
      const Stage &earlier = state_.stages[i];
      if (!earlier.isGather() || earlier.operand != stage.operand)
        continue;
      stage.kind = stage.isStreamed ? StageKind::Local : StageKind::Straight;
      stage.gatheredBy = i;
      return;
    }
  }

  LoweringState &state_;
  const TensorUses uses_;
  llvm::DenseMap<const FusionTensor *, size_t> stageOf_; ///< the stage of each computed tensor
};

/// If only the first of the stage's GEMMs runs step by step, moves the others, and all pointwise
/// nodes behind them, to a new stage that follows the gather.
void divide(std::vector<Stage> &stages, size_t index) {
  Stage &stage = stages[index];
  if (!stage.isShared() || stage.config.stepwise() != schedule::Stepwise::First)
    return;
  Stage rest = stage;
  rest.kind = StageKind::Straight;
  rest.steps = 1;
  rest.isNamed = false;
  rest.gatheredBy = index;
  rest.reshards.clear();
  rest.gemms.erase(rest.gemms.begin());
  stage.gemms.resize(1);
  auto isInSteps = [](const Pointwise &each) { return each.after < 2; };
  llvm::erase_if(rest.pointwise, isInSteps);
  llvm::erase_if(stage.pointwise, std::not_fn(isInSteps));
  for (Pointwise &each : rest.pointwise)
    --each.after;
  for (Stage &later : llvm::drop_begin(stages, index + 1))
    if (later.gatheredBy && *later.gatheredBy > index)
      ++*later.gatheredBy;
  stages.insert(stages.begin() + static_cast<ptrdiff_t>(index) + 1, std::move(rest));
}

/// Declares the program's signature and intermediate tensors, and links each stage to its tensors.
class Declarer : Emitter {
public:
  explicit Declarer(LoweringState &state) : Emitter(state), uses_(state.fusion) {}

  void run() {
    for (const FusionTensor *input : state_.fusion.inputs())
      values_[input] = builder_.param(global(input->name), typeOf(*input));
    for (const FusionTensor *output : state_.fusion.outputs())
      declareOutput(*output);
    for (const auto &node : state_.fusion.nodes())
      if (isGemm(*node) || node->kind == FusionOpKind::Pointwise)
        declareMade(*resultOf(*node));
    for (Stage &stage : state_.stages)
      connect(stage);
  }

private:
  TensorType typeOf(const FusionTensor &tensor) {
    return builder_.tensorType(tensor.type.dtype, state_.fusion.localShape(tensor.type));
  }

  void declareOutput(const FusionTensor &tensor) {
    Value *result = builder_.result(global(tensor.name), typeOf(tensor));
    auto [entry, isNew] = values_.try_emplace(&tensor, result);
    if (!isNew)
      state_.copies.emplace_back(result, entry->second);
  }

  void declareMade(const FusionTensor &tensor) {
    if (uses_.isFolded(tensor))
      return;
    const bool isApart = isExactApart(uses_, tensor);
    const bool isWanted = uses_.isRounded(tensor) || !isApart;
    if (isWanted && !values_.count(&tensor))
      values_[&tensor] = allocate(tensor, tensor.name, typeOf(tensor));
    if (!isApart)
      return;
    TensorType exact = typeOf(tensor);
    exact.dtype = DType::F32;
    exacts_[&tensor] = allocate(tensor, isWanted ? tensor.name + "_exact" : tensor.name, exact);
  }

  Value *allocate(const FusionTensor &tensor, const std::string &name, const TensorType &type) {
    builder_.setLocation(tensor.location);
    return builder_.allocate(global(name), MemorySpace::Device, type);
  }

  void connect(Stage &stage) {
    stage.input = values_.lookup(stage.operand);
    for (Gemm &gemm : stage.gemms) {
      gemm.dst = findExact(resultOf(*gemm.node));
      gemm.bias = values_.lookup(gemm.node->bias());
      for (size_t i = 0; i < gemm.node->pairs(); ++i) {
        gemm.lefts.push_back(values_.lookup(i == 0 ? gemm.source : gemm.node->a(i)));
        gemm.rights.push_back(values_.lookup(gemm.node->b(i)));
      }
    }
    for (Pointwise &each : stage.pointwise)
      connect(each);
    for (Reshard &reshard : stage.reshards)
      reshard.dst = values_.lookup(reshard.tensor);
  }

  void connect(Pointwise &pointwise) {
    TensorUses::Chain chain{pointwise.tensor, {}};
    if (!pointwise.isRounding)
      chain = uses_.chainOf(*pointwise.tensor->definition);
    pointwise.dst =
        pointwise.isRounding ? values_.lookup(pointwise.tensor) : findExact(pointwise.tensor);
    pointwise.first = findExact(chain.first);
    for (auto [function, operand] : chain.steps)
      pointwise.steps.push_back({function, operand ? findExact(operand) : nullptr});
  }

  /// Returns the unrounded tensor if it has a separate buffer, otherwise the tensor itself.
  Value *findExact(const FusionTensor *tensor) {
    return (isExactApart(uses_, *tensor) ? exacts_ : values_).lookup(tensor);
  }

  const TensorUses uses_;
  llvm::DenseMap<const FusionTensor *, Value *> values_, exacts_;
};

} // namespace

bool findStages(LoweringState &state) {
  if (!checkAll(state))
    return false;
  Grouper grouper(state);
  for (const auto &node : state.fusion.nodes())
    grouper.add(*node);
  for (Stage &stage : state.stages)
    stage.ranksPerHost = state.fusion.ranksPerHost();
  return true;
}

bool findMoves(LoweringState &state) {
  if (!findStages(state) || !configureStages(state))
    return false;
  for (size_t i = 0; i < state.stages.size(); ++i)
    divide(state.stages, i);
  const std::string &fusion = state.fusion.name();
  state.program =
      std::make_unique<Program>(fusion + "_" + scheduleName(state), fusion, state.fusion.ranks(),
                                state.fusion.location(), state.fusion.ranksPerHost());
  Declarer(state).run();
  return true;
}

} // namespace braid
