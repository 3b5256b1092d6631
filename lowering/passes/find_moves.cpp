//===- lowering/passes/find_moves.cpp - decides what moves, and what is computed together -----===//
//
// Compares the axis kinds of every GEMM's operands and result. GEMMs that cannot be lowered
// are reported, all of them; the others are grouped into stages (see state.h), each as early as its
// operands allow, so that an operand shared by several GEMMs is gathered once. Then the program
// is made, with nothing in it yet but its signature and the tensors between GEMMs.
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/passes/passes.h"
#include "lowering/stages/configure_stages.h"
#include "lowering/stages/legality.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

/// An output that is an input is copied, in one piece.
bool checkOutput(const LoweringState &state, const FusionTensor &output) {
  const std::optional<UnevenRows> uneven = state.fusion.unevenRows(output.type);
  if (!uneven || uneven->axis == 1 || !llvm::isa<InputNode>(output.definition))
    return true;
  return state.diags.error(output.location)
         << "cannot copy %" << output.name << " to an output: axis " << uneven->axis
         << " has rows that do not exist, and only after a leading axis do those that exist lie in "
            "one piece; an extent that divides would be accepted";
}

bool checkAll(LoweringState &state) {
  bool isFine = true;
  for (const auto &node : state.fusion.nodes())
    if (isGemm(*node))
      isFine &= checkLowerable(state.fusion, *node, state.diags);
  for (const FusionTensor *output : state.fusion.outputs())
    isFine &= checkOutput(state, *output);
  return isFine;
}

/// What moves for one GEMM, seen alone.
StageKind kindOf(const Fusion &fusion, const FusionNode &node) {
  if (isContractedOverDevices(node) && fusion.ranks() > 1)
    return StageKind::Reduce;
  const Axis &to = resultOf(node)->type.axes.front();
  if (to.kind != AxisKind::Stream)
    return StageKind::Straight;
  const Axis &from = operandsOf(node)[0]->type.axes.front();
  return isSplit(fusion, from) ? StageKind::Gather : StageKind::Local;
}

/// Groups GEMMs into stages.
class Grouper {
public:
  explicit Grouper(LoweringState &state) : state_(state) {}

  void add(const FusionNode &node) {
    StageKind kind = kindOf(state_.fusion, node);
    const bool isAlone = kind == StageKind::Straight || kind == StageKind::Reduce;
    size_t index = isAlone ? state_.stages.size() : findStage(node);
    if (index == state_.stages.size())
      addStage(node, kind);
    Stage &stage = state_.stages[index];
    const FusionTensor *operand = operandsOf(node)[0];
    stage.gemms.push_back({.node = &node, .source = gemmOf(stage, *operand)});
    stageOf_[resultOf(node)] = index;
  }

private:
  /// The GEMM of `stage` that makes `tensor`, if one does.
  static std::optional<size_t> gemmOf(const Stage &stage, const FusionTensor &tensor) {
    for (size_t i = 0; i < stage.gemms.size(); ++i)
      if (resultOf(*stage.gemms[i].node) == &tensor)
        return i;
    return std::nullopt;
  }

  /// The first stage whose steps can compute the GEMM too; the number of stages if none can.
  size_t findStage(const FusionNode &node) const {
    size_t index = 0;
    while (index < state_.stages.size() && !canJoin(state_.stages[index], index, node))
      ++index;
    return index;
  }

  bool canJoin(const Stage &stage, size_t index, const FusionNode &node) const {
    auto operands = operandsOf(node);
    bool isFed = stage.operand == operands[0] || gemmOf(stage, *operands[0]);
    return stage.kind != StageKind::Straight && !stage.isReduction() && isFed &&
           llvm::all_of(llvm::drop_begin(operands),
                        [&](const FusionTensor *t) { return isReadyBefore(*t, index); });
  }

  bool isReadyBefore(const FusionTensor &tensor, size_t stage) const {
    auto found = stageOf_.find(&tensor);
    return found == stageOf_.end() || found->second < stage;
  }

  void addStage(const FusionNode &node, StageKind kind) {
    Stage stage{.kind = kind, .operand = operandsOf(node)[0]};
    Shape shape = state_.fusion.localShape(stage.operand->type);
    stage.uneven = state_.fusion.unevenRows(stage.operand->type);
    if (kind == StageKind::Reduce)
      setReduction(stage, node, shape);
    else if (kind != StageKind::Straight)
      stage.steps = state_.fusion.globalShape(stage.operand->type).front();
    if (kind != StageKind::Reduce && shape.size() > 2)
      stage.rows = shape[1];
    if (kind == StageKind::Gather)
      reuseGathered(stage);
    state_.stages.push_back(std::move(stage));
  }

  /// A step makes the part of one device. Its rows are those that this device keeps, or all.
  void setReduction(Stage &stage, const FusionNode &node, const Shape &shape) {
    stage.steps = state_.fusion.ranks();
    const size_t axes = contractionOf(node).first;
    const bool isScattered = resultOf(node)->type.axes.front().kind == AxisKind::DIDx;
    if (isScattered)
      stage.rows = axes > 1 ? shape[1] : 0;
    else if (stage.uneven)
      stage.rows = stage.uneven->total;
    else if (axes > 0)
      stage.rows = axes == 2 ? shape[0] * shape[1] : shape[0];
    if (!isScattered)
      stage.uneven = std::nullopt; // its rows are one axis, and all of that exist
  }

  /// What an earlier stage has gathered is here already: nothing moves.
  void reuseGathered(Stage &stage) {
    for (size_t i = 0; i < state_.stages.size(); ++i) {
      const Stage &earlier = state_.stages[i];
      if (!earlier.isGather() || earlier.operand != stage.operand)
        continue;
      stage.kind = StageKind::Local;
      stage.gatheredBy = i;
      return;
    }
  }

  LoweringState &state_;
  llvm::DenseMap<const FusionTensor *, size_t> stageOf_; ///< of GEMMs; inputs have none
};

/// Makes the program's signature and the tensors between GEMMs.
class Declarer {
public:
  explicit Declarer(LoweringState &state)
      : state_(state), builder_(*state.program, ProgramBuilder::NamePolicy::AsWritten) {}

  void run() {
    for (const FusionTensor *input : state_.fusion.inputs())
      declare(*input, &ProgramBuilder::param);
    for (const FusionTensor *output : state_.fusion.outputs())
      declare(*output, &ProgramBuilder::result);
    for (const auto &node : state_.fusion.nodes())
      if (isGemm(*node))
        declareBetween(*resultOf(*node));
  }

private:
  TensorType typeOf(const FusionTensor &tensor) {
    return builder_.tensorType(tensor.type.dtype, state_.fusion.localShape(tensor.type));
  }

  using Make = Value *(ProgramBuilder::*)(llvm::StringRef, TensorType);
  void declare(const FusionTensor &tensor, Make make) {
    (builder_.*make)(state_.names.global(tensor.name), typeOf(tensor));
    declared_.insert(&tensor);
  }

  void declareBetween(const FusionTensor &tensor) {
    if (!declared_.insert(&tensor).second)
      return;
    builder_.setLocation(tensor.location);
    Value *between =
        builder_.allocate(state_.names.global(tensor.name), MemorySpace::Device, typeOf(tensor));
    between->definition->labels.push_back({tensor.name, kBetween});
  }

  LoweringState &state_;
  ProgramBuilder builder_;
  llvm::DenseSet<const FusionTensor *> declared_;
};

/// Finds the program's values for the fusion's tensors.
class Connector {
public:
  explicit Connector(LoweringState &state) : state_(state) {}

  bool run() {
    const Program &program = *state_.program;
    for (auto [tensor, value] : llvm::zip(state_.fusion.inputs(), program.params()))
      values_[tensor] = value.get();
    for (auto [tensor, value] : llvm::zip(state_.fusion.outputs(), program.results()))
      connectOutput(*tensor, value.get());
    for (const Op &op : program.body())
      for (const OpLabel &label : op.labels)
        if (label.role == kBetween)
          connectBetween(label.stage, op);
    return llvm::all_of(state_.stages, [&](Stage &stage) { return connect(stage); });
  }

private:
  void connectOutput(const FusionTensor &tensor, Value *result) {
    auto [entry, isNew] = values_.try_emplace(&tensor, result);
    if (!isNew)
      state_.copies.emplace_back(result, entry->second);
  }

  void connectBetween(llvm::StringRef name, const Op &op) {
    const auto *allocate = llvm::dyn_cast<AllocateOp>(&op);
    for (const auto &node : state_.fusion.nodes())
      if (allocate && isGemm(*node) && resultOf(*node)->name == name)
        values_.try_emplace(resultOf(*node), const_cast<Value *>(&allocate->result));
  }

  bool connect(Stage &stage) {
    stage.input = find(stage.operand);
    bool isFine = stage.input != nullptr;
    for (Gemm &gemm : stage.gemms) {
      auto operands = operandsOf(*gemm.node);
      gemm.dst = find(resultOf(*gemm.node));
      gemm.right = find(operands[1]);
      gemm.bias = operands.size() == 3 ? find(operands[2]) : nullptr;
      isFine = isFine && gemm.dst && gemm.right && (operands.size() < 3 || gemm.bias);
    }
    return isFine;
  }

  Value *find(const FusionTensor *tensor) {
    Value *value = values_.lookup(tensor);
    if (!value)
      state_.diags.error(state_.program->location())
          << "expected a tensor for %" << tensor->name << " of @" << state_.fusion.name()
          << " with the label '@" << tensor->name << " " << kBetween << "', got none";
    return value;
  }

  LoweringState &state_;
  llvm::DenseMap<const FusionTensor *, Value *> values_;
};

} // namespace

bool findStages(LoweringState &state) {
  if (!checkAll(state))
    return false;
  Grouper grouper(state);
  for (const auto &node : state.fusion.nodes())
    if (isGemm(*node))
      grouper.add(*node);
  return true;
}

bool connectStages(LoweringState &state) { return Connector(state).run(); }

bool findMoves(LoweringState &state) {
  if (!findStages(state) || !configureStages(state))
    return false;
  const std::string &fusion = state.fusion.name();
  state.program = std::make_unique<Program>(fusion + "_" + scheduleName(state), fusion,
                                            state.fusion.ranks(), state.fusion.location());
  Declarer(state).run();
  return connectStages(state);
}

} // namespace braid
