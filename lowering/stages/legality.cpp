//===- lowering/stages/legality.cpp - decides which GEMMs can be lowered ----------------------===//

#include "lowering/stages/legality.h"

#include "lowering/stages/elementwise.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

namespace braid {
namespace {

/// An axis of a fusion tensor.
struct AxisOf {
  const FusionTensor *tensor;
  size_t index;

  /// Returns the stored tensor: a reshard's operand, otherwise the tensor itself.
  const FusionTensor &origin() const { return originOf(*tensor); }
  const Axis &axis() const { return origin().type.axes[index]; }
  /// Returns text such as "axis 0 of %A".
  std::string str() const { return "axis " + std::to_string(index) + " of %" + tensor->name; }
  /// Returns "axis 0 of %A (bf16[DIDx{D}, M/D, K])" or "axis 0 of %Z (a reshard of %A, bf16[...])".
  std::string strWithType() const {
    const std::string reshard = &origin() == tensor ? "" : "a reshard of %" + origin().name + ", ";
    return str() + " (" + reshard + origin().type.str() + ")";
  }
};

/// Checks one matmul or linear.
class Checker {
public:
  Checker(const Fusion &fusion, const FusionNode &node)
      : fusion_(fusion), node_(node), result_(resultOf(node)), contraction_(contractionOf(node)) {}

  std::vector<Refusal> run() {
    if (first()->definition->kind == FusionOpKind::Reshard &&
        !whyNotLowered(fusion_, *first()->definition).empty())
      return {}; // reported for the reshard; the operand's layout is unknown
    for (const FusionTensor *operand : llvm::drop_begin(node_.operands))
      if (operand->definition->kind == FusionOpKind::Reshard)
        refuse("%" + operand->name + " is resharded, but only the first operand can be gathered");
    if (isReduction())
      checkPartBytes();
    for (pair_ = 0; pair_ < node_.pairs(); ++pair_)
      checkPair();
    pair_ = 0;
    checkUnevenRows();
    if (bias())
      for (size_t i = 0; i < bias()->type.axes.size(); ++i)
        checkBias({bias(), i});
    return std::move(refusals_);
  }

private:
  const FusionTensor *first() const { return node_.a(pair_); }
  const FusionTensor *second() const { return node_.b(pair_); }
  const FusionTensor *bias() const { return node_.bias(); }
  /// Returns the number of leading result axes that are axes of the first operand.
  size_t fromFirst() const { return contraction_.first; }
  bool isSplit(const AxisOf &axis) const { return braid::isSplit(fusion_, axis.axis()); }

  /// Reports each reason once, although two pairs of operands may contain the same tensor.
  void refuse(const std::string &reason, const std::string &otherwise = "") {
    if (llvm::none_of(refusals_, [&](const Refusal &each) { return each.reason == reason; }))
      refusals_.push_back({reason, otherwise});
  }

  /// True if every device computes only a partial result.
  bool isReduction() const {
    return contraction_.count == 2 && fusion_.ranks() > 1 && isContractedOverDevices(node_);
  }

  /// Checks the product of one pair of operands.
  void checkPair() {
    if (isReduction())
      checkReduction();
    else
      for (size_t i = 0; i < contraction_.count; ++i) {
        checkContracted({first(), contraction_.first + i});
        checkContracted({second(), contraction_.second + i});
      }
    for (size_t i = 0; i < result_->type.axes.size(); ++i)
      checkAxis({result_, i});
    if (fromFirst() > 0 && refusals_.empty())
      checkLikeFirst({first(), 0}, {node_.a(), 0});
  }

  /// Checks that the leading axes of two pairs' first operands are both split or both replicated.
  void checkLikeFirst(AxisOf axis, AxisOf other) {
    if (isSplit(axis) != isSplit(other))
      refuse(axis.strWithType() + " is " + (isSplit(axis) ? "" : "not ") +
             "split over devices, but " + other.strWithType() +
             (isSplit(axis) ? " is not" : " is") + ", and the two products are added");
  }

  void checkContracted(AxisOf axis) {
    if (isSplit(axis))
      refuse(axis.strWithType() + " is contracted and split over devices, with one entry per "
                                  "device, but partial results require two contracted axes, a "
                                  "DIDx axis and an inner axis");
  }

  /// Checks a GEMM that contracts over devices: each rank multiplies local shards of both operands.
  void checkReduction() {
    AxisOf a{first(), contraction_.first}, b{second(), contraction_.second};
    if (!isSplit(a))
      refuse(
          a.strWithType() +
          " is replicated on every device, and the part that each device needs is not contiguous");
    if (!isSplit(b) && node_.transposeB)
      refuse(
          b.strWithType() +
          " is replicated on every device, and the part that each device needs is not contiguous");
    for (size_t i = 1; i < result_->type.axes.size(); ++i)
      if (isSplit({result_, i}))
        return refuse(AxisOf{result_, i}.strWithType() +
                      " is split over devices, so the part of a partial result that each device "
                      "keeps is not contiguous");
  }

  /// Checks that the size in bytes of all ranks' partial results fits in 64 bits.
  void checkPartBytes() {
    Shape shape = fusion_.localShape(result_->type);
    shape.push_back(fusion_.ranks());
    if (!byteCount(partialType(node_), shape))
      refuse("the size of the partial results of all ranks overflows 64 bits", "a smaller result");
  }

  /// Checks that no axis of a partial result except the leading axis becomes split over devices.
  void checkReduced(AxisOf to) {
    AxisOf from = sourceOf(to);
    if (!isFromFirst(to) && isSplit(from))
      return refuse(from.strWithType() +
                    " is split over devices, so no device has all columns of a partial "
                    "result");
    if (to.index != 0 || !isSplit(to))
      return (void)checkStream(to);
    if (!isFromFirst(to))
      refuse(to.strWithType() + " comes from %" + second()->name +
             ", but a partial result can be split only along rows of the first operand");
    else if (from.axis().kind == AxisKind::DIDx)
      refuse(from.strWithType() + " is already split over devices");
  }

  bool checkStream(AxisOf to) {
    if (to.axis().kind != AxisKind::Stream || (to.index == 0 && isFromFirst(to)))
      return true;
    refuse(to.strWithType() + " is Stream, but only a leading axis that comes from %" +
           first()->name + " can be produced slice by slice");
    return false;
  }

  bool isFromFirst(AxisOf axis) const { return axis.index < fromFirst(); }

  /// Returns the operand axis that corresponds to a result axis.
  AxisOf sourceOf(AxisOf axis) const {
    if (isFromFirst(axis))
      return {first(), axis.index};
    return {second(), axis.index - fromFirst() + (node_.transposeB ? 0 : contraction_.count)};
  }

  void checkAxis(AxisOf to) {
    AxisOf from = sourceOf(to);
    if (isReduction())
      return checkReduced(to);
    if (!checkStream(to))
      return;
    const bool areRows = isFromFirst(to) && to.index == 0;
    if (!isSplit(from) && isSplit(to) && !areRows)
      return refuse(
          from.strWithType() + " is replicated on every device, but " + to.strWithType() +
          " is split over devices" +
          (from.index > 0 ? ", and the part that each device needs is not contiguous" : ""));
    if (isSplit(from) && !isSplit(to))
      checkGather(from, to);
  }

  /// Checks an operand axis `from` that is split although its result axis `to` is not. Lowering can
  /// gather the leading axis, or the second axis for each slice of a Stream axis.
  void checkGather(AxisOf from, AxisOf to) {
    std::string both =
        from.strWithType() + " is split over devices, but " + to.strWithType() + " is not, and ";
    if (!isFromFirst(to))
      return refuse(both + "only %" + first()->name + " is gathered");
    if (node_.pairs() > 1)
      return refuse(both + "no operand can be gathered if several products are added");
    const bool isOfSlice = from.index == 1 && result_->type.axes.front().kind == AxisKind::Stream;
    if (from.index != 0 && !isOfSlice)
      return refuse(both + "only a leading axis can be gathered, or the second axis for each slice "
                           "of a Stream axis");
  }

  /// Checks that any axis with padding rows follows the first operand's leading axis. Otherwise,
  /// padding would separate the rows that contain data.
  void checkUnevenRows() {
    for (const FusionTensor *operand : node_.operands) {
      const std::optional<UnevenRows> uneven = fusion_.unevenRows(operand->type);
      const bool isFirst = llvm::any_of(llvm::seq<size_t>(0, node_.pairs()),
                                        [&](size_t i) { return operand == node_.a(i); });
      if (!uneven || (isFirst && uneven->axis == 1))
        continue;
      const AxisOf axis{operand, uneven->axis};
      refuse(axis.strWithType() + " has padding rows, which are supported only on the axis "
                                  "directly after the leading axis of the first operand",
             "an extent that divides evenly");
    }
  }

  /// Checks that the bias is split in the same way as the last axes of the result.
  void checkBias(AxisOf axis) {
    AxisOf to{result_, fromFirst() + axis.index};
    if (isSplit(axis) == isSplit(to))
      return;
    std::string lies =
        isSplit(axis) ? " is split over devices, but " : " is replicated on every device, but ";
    std::string toLies = isSplit(to) ? " is split" : " is replicated";
    refuse(axis.strWithType() + lies + to.strWithType() + ", to which it is added," + toLies);
  }

  const Fusion &fusion_;
  const FusionNode &node_;
  const FusionTensor *result_;
  const Contraction contraction_;
  size_t pair_ = 0; ///< the pair of operands to check
  std::vector<Refusal> refusals_;
};

/// Checks that a pointwise node moves no data and belongs to a stage.
std::vector<Refusal> checkPointwise(const Fusion &fusion, const FusionNode &node) {
  std::vector<Refusal> refusals;
  for (const FusionTensor *operand : node.operands) {
    if (operand->definition->kind == FusionOpKind::Reshard) {
      refusals.push_back(
          {"%" + operand->name +
           " is resharded, but a pointwise function accepts only inputs and computed tensors"});
      continue; // its axes are those of the reshard, not of the origin
    }
    for (size_t i = 0; i < operand->type.axes.size(); ++i) {
      const AxisOf from{operand, i}, to{&node.result, i};
      const bool isFromSplit = isSplit(fusion, from.axis());
      if (isFromSplit != isSplit(fusion, to.axis()))
        refusals.push_back({from.strWithType() + " is " + (isFromSplit ? "" : "not ") +
                            "split over devices, but " + to.strWithType() +
                            (isFromSplit ? " is not" : " is")});
    }
  }
  if (llvm::all_of(node.operands, [](const FusionTensor *operand) {
        return operand->definition->kind == FusionOpKind::Input;
      }))
    refusals.push_back(
        {"all its operands are inputs, but at least one must be computed by a stage"});
  return refusals;
}

/// Accepts only reshards that gather an input from DIDx to Stream along the leading axis.
std::vector<Refusal> checkReshard(const Fusion &fusion, const FusionNode &node) {
  const FusionTensor &from = *node.a(), &to = node.result;
  if (from.definition->kind != FusionOpKind::Input)
    return {{"%" + from.name + " is not an input, but only inputs can be resharded"}};
  const std::string both = AxisOf{&from, 0}.strWithType() + " cannot be gathered to axis 0 of %" +
                           to.name + " (" + to.type.str() + ")";
  if (from.type.axes.front().kind != AxisKind::DIDx ||
      to.type.axes.front().kind != AxisKind::Stream)
    return {{both + ": only a leading DIDx axis can be gathered, and only to Stream"}};
  for (size_t i = 1; i < from.type.axes.size(); ++i)
    if (isSplit(fusion, from.type.axes[i]) != isSplit(fusion, to.type.axes[i]))
      return {{AxisOf{&from, i}.strWithType() +
               " is not split over devices in the same way as axis " + std::to_string(i) + " of %" +
               to.name + " (" + to.type.str() + "), but only a leading axis can be gathered"}};
  const std::optional<UnevenRows> uneven = fusion.unevenRows(from.type);
  if (uneven && uneven->axis != 1)
    return {{"axis " + std::to_string(uneven->axis) + " of %" + from.name + " has padding rows",
             "an extent that divides evenly"}};
  return {};
}

} // namespace

bool isSplit(const Fusion &fusion, const Axis &axis) {
  return axis.kind == AxisKind::DIDx && fusion.ranks() > 1;
}

bool gathersSlices(const Fusion &fusion, const FusionNode &node) {
  const auto &from = originOf(*node.operands[0]).type.axes;
  const auto &to = resultOf(node)->type.axes;
  return contractionOf(node).first > 1 && !isSplit(fusion, from.front()) &&
         isSplit(fusion, from[1]) && to[1].kind != AxisKind::DIDx;
}

std::vector<Refusal> whyNotLowered(const Fusion &fusion, const FusionNode &node) {
  if (isGemm(node))
    return Checker(fusion, node).run();
  if (node.kind == FusionOpKind::Pointwise)
    return checkPointwise(fusion, node);
  if (node.kind == FusionOpKind::Reshard)
    return checkReshard(fusion, node);
  return {};
}

} // namespace braid
