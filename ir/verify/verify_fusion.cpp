//===- ir/verify/verify_fusion.cpp - the rules for fusions ------------------------------------===//

#include "ir/verify/verify.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace braid {
namespace {

class FusionVerifier {
public:
  FusionVerifier(const Fusion &fusion, Diagnostics &diags) : fusion_(fusion), diags_(diags) {}
  void run();

private:
  void verifyMesh();
  void verifyHosts();
  std::optional<int64_t> verifyMeshScalar(llvm::StringRef what, const Scalar *scalar);
  void verifyNode(const FusionNode &node);
  void verifyUse();

  void verifyInput(const FusionNode &node);
  void verifyMatmul(const FusionNode &node);
  void verifyElementwise(const FusionNode &node);
  void verifyOutput(const FusionNode &node);

  bool verifyType(const FusionTensor &tensor);
  bool verifyExtent(const FusionTensor &tensor, size_t axis);
  bool verifyKinds(const FusionTensor &tensor);
  std::string splitText(const Scalar *extent) const;
  bool verifyCeil(const FusionTensor &tensor);
  bool verifyCeilAxis(const FusionTensor &tensor, size_t axis);
  bool reportValue(const Scalar *scalar, ScalarError error, Location location,
                   const std::string &subject);
  const Scalar *failingStep(const Scalar *scalar) const;
  bool isReported(const Scalar *extent, const Scalar *cause);

  bool hasShape(const FusionTensor *tensor) const { return shapes_.count(tensor) != 0; }
  bool verifyDTypes(const FusionNode &node, const FusionTensor &result);
  bool verifyPairs(const FusionNode &node);
  bool verifyLikeFirst(const FusionNode &node, size_t pair);
  bool verifyLike(const FusionNode &node, const FusionTensor *tensor, const FusionTensor *model,
                  size_t begin, size_t count);
  bool verifyContraction(const FusionNode &node, size_t pair);
  bool verifyExtents(const FusionNode &node, size_t pair, size_t lhsAxis, size_t rhsAxis);
  std::string otherGemmText(const FusionNode &node);
  bool verifyAllExist(const FusionNode &node, const FusionTensor *operand, size_t axis);
  bool verifyOuterAxes(const FusionNode &node, size_t pair, const Contraction &contraction);
  void verifyPartial(const FusionNode &node);
  Shape otherAxes(const FusionTensor *tensor, size_t first, size_t count);
  Shape rowTotals(const FusionTensor *tensor) const;
  Shape otherTotals(const FusionTensor *tensor, size_t first, size_t count) const;
  void verifyTotals(const FusionNode &node, const FusionTensor &tensor, const Shape &expected);
  void verifyResult(const FusionNode &node, const FusionTensor &result, const Shape &expected);

  const Fusion &fusion_;
  Diagnostics &diags_;
  int64_t ranks_ = 0;                     ///< 0 if the mesh has an error
  llvm::DenseSet<const Scalar *> causes_; ///< subexpressions whose errors have been reported
  llvm::DenseMap<const FusionTensor *, Shape> shapes_; ///< shapes of tensors without errors
  llvm::DenseMap<const FusionTensor *, Location> outputs_;
};

std::string ref(const FusionTensor *tensor) { return "%" + tensor->name; }

bool usesCeil(const Scalar *scalar) {
  return scalar->kind() == ScalarKind::Ceil ||
         (isBinary(scalar->kind()) && (usesCeil(scalar->lhs()) || usesCeil(scalar->rhs())));
}

std::string str(llvm::ArrayRef<int64_t> shape) {
  auto texts = llvm::map_range(shape, [](int64_t extent) { return std::to_string(extent); });
  return "[" + llvm::join(texts, ", ") + "]";
}

void FusionVerifier::run() {
  verifyMesh();
  for (const auto &node : fusion_.nodes())
    verifyNode(*node);
  verifyUse();
}

void FusionVerifier::verifyMesh() {
  if (!fusion_.mesh()) {
    diags_.error(fusion_.location()) << "fusion @" << fusion_.name() << " has no mesh";
    return;
  }
  std::optional<int64_t> ranks = verifyMeshScalar("mesh size", fusion_.mesh());
  if (ranks && verifyMeshSize(*ranks, fusion_.meshLocation(), diags_)) {
    ranks_ = *ranks;
    verifyHosts();
  }
}

void FusionVerifier::verifyHosts() {
  if (!fusion_.hostSize())
    return;
  if (auto size = verifyMeshScalar("number of ranks per host", fusion_.hostSize()))
    verifyRanksPerHost(*size, ranks_, fusion_.meshLocation(), diags_);
}

/// Returns the value of a scalar in `mesh`, or std::nullopt after an error.
std::optional<int64_t> FusionVerifier::verifyMeshScalar(llvm::StringRef what,
                                                        const Scalar *scalar) {
  ScalarValue value = fusion_.valueOf(scalar);
  std::string subject = what.str() + " " + scalar->str();
  if (!value.isOk())
    reportValue(scalar, value.error, fusion_.meshLocation(), subject);
  else if (usesCeil(scalar))
    diags_.error(fusion_.meshLocation())
        << subject << " uses 'ceil', which is allowed only in extents";
  else
    return value.value;
  return std::nullopt;
}

void FusionVerifier::verifyNode(const FusionNode &node) {
  if (const FusionTensor *result = resultOf(node); result && verifyType(*result))
    shapes_[result] = fusion_.globalShape(result->type);
  switch (node.kind) {
  case FusionOpKind::Input:
    return verifyInput(node);
  case FusionOpKind::Matmul:
    return verifyMatmul(node);
  case FusionOpKind::Pointwise:
  case FusionOpKind::Reshard:
    return verifyElementwise(node);
  case FusionOpKind::Output:
    return verifyOutput(node);
  }
}

/// Checks that the fusion has an output, and warns about nodes that no output depends on.
void FusionVerifier::verifyUse() {
  if (outputs_.empty()) {
    diags_.error(fusion_.location()) << "fusion @" << fusion_.name() << " has no output";
    return;
  }
  for (const FusionNode *node : fusion_.unusedNodes()) {
    const FusionTensor *result = resultOf(*node);
    if (node->kind == FusionOpKind::Input)
      diags_.warning(result->location) << "input " << ref(result) << " is not used";
    else
      diags_.warning(result->location)
          << ref(result) << " is never computed, because no output depends on it";
  }
}

//===----------------------------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------------------------===//

bool FusionVerifier::verifyType(const FusionTensor &tensor) {
  bool isFine = true;
  for (size_t axis = 0; axis < tensor.type.axes.size(); ++axis)
    isFine &= verifyExtent(tensor, axis);
  if (!isFine)
    return false;
  Shape shape = fusion_.globalShape(tensor.type);
  if (!elementCount(shape))
    return diags_.error(tensor.location)
           << "the number of elements of " << ref(&tensor) << " overflows 64 bits: " << str(shape);
  if (!byteCount(tensor.type.dtype, shape))
    return diags_.error(tensor.location)
           << "the size of " << ref(&tensor)
           << " in bytes overflows 64 bits: " << name(tensor.type.dtype) << str(shape);
  return verifyKinds(tensor) && verifyCeil(tensor);
}

/// Returns true if `cause` depends on a parameter and its error has already been reported, or if
/// the mesh size is invalid and shares a parameter with `extent`.
bool FusionVerifier::isReported(const Scalar *extent, const Scalar *cause) {
  auto isParameter = [](const Scalar *leaf) { return !leaf->isConstant(); };
  auto sizesMesh = [&](const Scalar *leaf) {
    return isParameter(leaf) &&
           anyLeaf(fusion_.mesh(), [&](const Scalar *other) { return other == leaf; });
  };
  if (ranks_ == 0 && fusion_.mesh() && anyLeaf(extent, sizesMesh))
    return true;
  return anyLeaf(cause, isParameter) && !causes_.insert(cause).second;
}

bool FusionVerifier::verifyExtent(const FusionTensor &tensor, size_t axis) {
  const Scalar *extent = tensor.type.axes[axis].extent;
  std::string subject =
      "extent " + extent->str() + " of axis " + std::to_string(axis) + " of " + ref(&tensor);
  ScalarValue value = fusion_.valueOf(extent);
  bool isFine = value.isOk() && value.value >= 1;
  if (!isFine && isReported(extent, value.isOk() ? extent : failingStep(extent)))
    return false;
  if (!value.isOk())
    return reportValue(extent, value.error, tensor.location, subject);
  if (isFine)
    return true;
  return diags_.error(tensor.location)
         << subject << " is " << value.value << ", expected at least 1";
}

/// Returns text such as "DIDx{D}, M/D splits M over the devices".
std::string FusionVerifier::splitText(const Scalar *extent) const {
  auto operand = [](const Scalar *scalar) {
    return isBinary(scalar->kind()) ? "(" + scalar->str() + ")" : scalar->str();
  };
  return "DIDx{" + fusion_.mesh()->str() + "}, " + operand(extent) + "/" + operand(fusion_.mesh()) +
         " splits " + extent->str() + " over the devices";
}

/// Checks that there is at most one DIDx axis and at most one Stream axis, and that the extent of a
/// DIDx axis is the mesh size.
bool FusionVerifier::verifyKinds(const FusionTensor &tensor) {
  bool isFine = true;
  for (AxisKind kind : {AxisKind::DIDx, AxisKind::Stream}) {
    auto count = llvm::count_if(tensor.type.axes, [&](const Axis &a) { return a.kind == kind; });
    if (count > 1)
      isFine = diags_.error(tensor.location)
               << ref(&tensor) << " has " << count << " "
               << (kind == AxisKind::DIDx ? "DIDx" : "Stream") << " axes, expected at most one";
  }
  std::optional<size_t> didx = tensor.type.find(AxisKind::DIDx);
  if (!isFine || !didx || ranks_ == 0)
    return isFine;
  int64_t extent = fusion_.valueOf(tensor.type.axes[*didx].extent).value;
  if (extent == ranks_)
    return true;
  return diags_.error(tensor.location)
         << "axis " << *didx << " of " << ref(&tensor)
         << " is DIDx; expected its extent to be the mesh size " << ranks_ << ", got " << extent
         << (extent % ranks_ == 0 ? "; " + splitText(tensor.type.axes[*didx].extent) : "");
}

/// Checks that at most one axis uses `ceil`, and checks this axis.
bool FusionVerifier::verifyCeil(const FusionTensor &tensor) {
  bool isFine = true;
  size_t count = 0;
  for (size_t axis = 0; axis < tensor.type.axes.size(); ++axis)
    if (usesCeil(tensor.type.axes[axis].extent)) {
      ++count;
      isFine &= verifyCeilAxis(tensor, axis);
    }
  return isFine &&
         (count < 2 || diags_.error(tensor.location) << ref(&tensor) << " has " << count
                                                     << " axes with 'ceil', expected at most one");
}

/// Checks that 'ceil' is the outermost operator in the extent of a plain axis, and that the
/// preceding axis has one entry per block.
bool FusionVerifier::verifyCeilAxis(const FusionTensor &tensor, size_t axis) {
  const AxisKind kind = tensor.type.axes[axis].kind;
  const Scalar *extent = tensor.type.axes[axis].extent;
  auto fail = [&](const std::string &wrong) {
    return diags_.error(tensor.location) << "extent " << extent->str() << " of axis " << axis
                                         << " of " << ref(&tensor) << " " << wrong;
  };
  const bool isRoot = extent->kind() == ScalarKind::Ceil;
  if (!isRoot || kind != AxisKind::Plain || usesCeil(extent->lhs()) || usesCeil(extent->rhs()))
    return fail("uses 'ceil', which is allowed only as the whole extent of a plain axis");
  const std::string blocks = extent->rhs()->str();
  const int64_t count = fusion_.valueOf(extent->rhs()).value;
  if (axis == 0)
    return fail("uses 'ceil' on the leading axis, but an axis with 'ceil' must directly follow an "
                "axis of extent " +
                blocks);
  const int64_t before = fusion_.valueOf(tensor.type.axes[axis - 1].extent).value;
  return before == count ||
         fail("uses 'ceil' after an axis of extent " + std::to_string(before) +
              ", expected an axis of extent " + blocks + ", which is " + std::to_string(count));
}

/// Reports an error such as "SUBJECT is not an integer: 1000 / 7".
bool FusionVerifier::reportValue(const Scalar *scalar, ScalarError error, Location location,
                                 const std::string &subject) {
  const Scalar *step = failingStep(scalar);
  const std::string lhs = std::to_string(fusion_.valueOf(step->lhs()).value),
                    rhs = std::to_string(fusion_.valueOf(step->rhs()).value),
                    word = symbol(step->kind()).str();
  return diags_.error(location) << subject << " " << describe(error) << ": "
                                << (isCall(step->kind()) ? word + "(" + lhs + ", " + rhs + ")"
                                                         : lhs + " " + word + " " + rhs);
}

/// Returns the innermost operation that cannot be evaluated, or a leaf without a value.
const Scalar *FusionVerifier::failingStep(const Scalar *scalar) const {
  if (isBinary(scalar->kind()))
    for (const Scalar *operand : {scalar->lhs(), scalar->rhs()})
      if (!fusion_.valueOf(operand).isOk())
        return failingStep(operand);
  return scalar;
}

//===----------------------------------------------------------------------------------------===//
// One method per node
//===----------------------------------------------------------------------------------------===//

/// Checks that an input has no Stream axis, because inputs are not produced slice by slice.
void FusionVerifier::verifyInput(const FusionNode &node) {
  if (std::optional<size_t> axis = node.result.type.find(AxisKind::Stream))
    diags_.error(node.location) << "axis " << *axis << " of the input " << ref(&node.result)
                                << " is Stream, expected a plain or DIDx axis";
}

/// Checks a GEMM's operands, its bias, which must have B's uncontracted axes, and its result.
void FusionVerifier::verifyMatmul(const FusionNode &node) {
  if (!verifyPairs(node) || !verifyDTypes(node, node.result))
    return;
  for (size_t i = 0; i < node.pairs(); ++i)
    if (!hasShape(node.a(i)) || !hasShape(node.b(i)) || !verifyLikeFirst(node, i) ||
        !verifyContraction(node, i))
      return;
  const Contraction contraction = contractionOf(node);
  Shape expected = otherAxes(node.a(), contraction.first, contraction.count);
  const Shape columns = otherAxes(node.b(), contraction.second, contraction.count);
  if (node.bias() && hasShape(node.bias()) && shapes_[node.bias()] != columns)
    diags_.error(node.location) << "the shape of the bias " << ref(node.bias()) << " is "
                                << str(shapes_[node.bias()]) << ", expected " << str(columns)
                                << ", the axes of " << ref(node.b()) << " except the last"
                                << (contraction.count == 2 ? " two" : "");
  llvm::append_range(expected, columns);
  Shape totals = otherTotals(node.a(), contraction.first, contraction.count);
  const Shape columnTotals = otherTotals(node.b(), contraction.second, contraction.count);
  llvm::append_range(totals, columnTotals);
  verifyResult(node, node.result, expected);
  if (node.bias())
    verifyTotals(node, *node.bias(), columnTotals);
  verifyTotals(node, node.result, totals);
  verifyPartial(node);
}

/// Checks that the operands form pairs. Only `linear` may have another operand: the bias.
bool FusionVerifier::verifyPairs(const FusionNode &node) {
  if (node.transposeB || node.operands.size() % 2 == 0)
    return true;
  return diags_.error(node.location)
         << "'matmul' multiplies pairs of tensors: expected an even number of operands, got "
         << node.operands.size()
         << "; use 'linear %x, %w, %bias' to add a bias, where %w has the shape [N, K]";
}

/// Checks that the operands of a pair have the same axes as those of the first pair, and that
/// either all pairs contract over devices or none do.
bool FusionVerifier::verifyLikeFirst(const FusionNode &node, size_t pair) {
  const auto [first, second, count] = contractionOf(node);
  if (!verifyLike(node, node.a(pair), node.a(), first, count) ||
      !verifyLike(node, node.b(pair), node.b(), second, count))
    return false;
  const bool isPartial = isContractedOverDevices(node);
  if (isContractedOverDevices(node, pair) == isPartial)
    return true;
  return diags_.error(node.location)
         << "'" << keyword(node) << "' contracts " << ref(node.a(isPartial ? 0 : pair)) << " with "
         << ref(node.b(isPartial ? 0 : pair)) << " over devices, but not "
         << ref(node.a(isPartial ? pair : 0)) << " with " << ref(node.b(isPartial ? pair : 0))
         << "; expected a contracted DIDx axis in every pair of operands or in none";
}

/// Checks that `tensor` has the same extents and row totals as `model`, except along the `count`
/// contracted axes from `begin` on.
bool FusionVerifier::verifyLike(const FusionNode &node, const FusionTensor *tensor,
                                const FusionTensor *model, size_t begin, size_t count) {
  const Shape &got = shapes_[tensor], &expected = shapes_[model];
  if (got.size() != expected.size())
    return diags_.error(node.location)
           << ref(tensor) << " and " << ref(model) << " must have the same number of axes, got "
           << got.size() << " and " << expected.size();
  const Shape rows = rowTotals(tensor), expectedRows = rowTotals(model);
  auto text = [](int64_t extent, int64_t total) {
    return total == 0 ? "extent " + std::to_string(extent)
                      : std::to_string(total) + " rows across all blocks";
  };
  for (size_t i = 0; i < got.size(); ++i)
    if ((i < begin || i >= begin + count) && (got[i] != expected[i] || rows[i] != expectedRows[i]))
      return diags_.error(node.location)
             << "axis " << i << " of " << ref(tensor) << " has " << text(got[i], rows[i])
             << ", expected " << text(expected[i], expectedRows[i]) << ", like " << ref(model);
  return true;
}

/// Checks that the operands and the result have the same extents and element type.
void FusionVerifier::verifyElementwise(const FusionNode &node) {
  const auto operands = node.operands;
  const FusionTensor &result = *resultOf(node), *first = operands.front();
  if (!verifyDTypes(node, result) ||
      !llvm::all_of(operands, [&](const FusionTensor *operand) { return hasShape(operand); }))
    return;
  llvm::SmallVector<const FusionTensor *, 3> alike(operands.begin(), operands.end());
  alike.push_back(&result);
  for (const FusionTensor *tensor : llvm::drop_begin(alike)) {
    verifyResult(node, *tensor, shapes_[first]);
    verifyTotals(node, *tensor, rowTotals(first));
  }
}

/// Checks that no tensor is listed as an output twice.
void FusionVerifier::verifyOutput(const FusionNode &node) {
  for (const FusionTensor *tensor : node.operands) {
    auto [entry, isNew] = outputs_.try_emplace(tensor, node.location);
    if (!isNew)
      diags_.error(node.location).note(entry->second, "first listed here")
          << ref(tensor) << " is listed as an output twice";
  }
}

bool FusionVerifier::verifyDTypes(const FusionNode &node, const FusionTensor &result) {
  const FusionTensor *first = node.operands.front();
  bool isFine = true;
  auto verifyOne = [&](const FusionTensor *tensor) {
    if (tensor->type.dtype == first->type.dtype)
      return;
    isFine = diags_.error(node.location)
             << "'" << keyword(node) << "' mixes element types: " << ref(first) << " is "
             << name(first->type.dtype) << ", " << ref(tensor) << " is "
             << name(tensor->type.dtype);
  };
  for (const FusionTensor *operand : node.operands)
    verifyOne(operand);
  verifyOne(&result);
  return isFine;
}

/// Returns the extents of a tensor, except those of the `count` axes starting at `first`.
Shape FusionVerifier::otherAxes(const FusionTensor *tensor, size_t first, size_t count) {
  Shape shape = shapes_[tensor];
  shape.erase(shape.begin() + first, shape.begin() + first + count);
  return shape;
}

/// Returns, for each axis, the number of rows in all blocks, excluding padding, or 0 if the axis
/// has no padding.
Shape FusionVerifier::rowTotals(const FusionTensor *tensor) const {
  Shape totals(tensor->type.axes.size(), 0);
  if (std::optional<UnevenRows> uneven = fusion_.unevenRows(tensor->type))
    totals[uneven->axis] = uneven->total;
  return totals;
}

Shape FusionVerifier::otherTotals(const FusionTensor *tensor, size_t first, size_t count) const {
  Shape totals = rowTotals(tensor);
  totals.erase(totals.begin() + first, totals.begin() + first + count);
  return totals;
}

/// Checks that the row totals of `tensor` equal `expected`, the row totals of the operands.
void FusionVerifier::verifyTotals(const FusionNode &node, const FusionTensor &tensor,
                                  const Shape &expected) {
  if (!hasShape(&tensor) || shapes_[&tensor].size() != expected.size())
    return;
  const Shape got = rowTotals(&tensor);
  auto rows = [](int64_t total) -> std::string {
    return total == 0 ? "no padding rows" : std::to_string(total) + " rows across all blocks";
  };
  for (size_t axis = 0; axis < got.size(); ++axis)
    if (got[axis] != expected[axis])
      diags_.error(node.location) << "axis " << axis << " of " << ref(&tensor) << " has "
                                  << rows(got[axis]) << ", expected " << rows(expected[axis]);
}

/// Checks that a contracted axis has no padding.
bool FusionVerifier::verifyAllExist(const FusionNode &node, const FusionTensor *operand,
                                    size_t axis) {
  const std::optional<UnevenRows> uneven = fusion_.unevenRows(operand->type);
  if (!uneven || (uneven->axis != axis && uneven->axis != axis + 1))
    return true;
  return diags_.error(node.location)
         << "'" << keyword(node) << "' contracts axis " << axis << " of " << ref(operand)
         << ", but in its " << uneven->blocks << " blocks of " << uneven->rows << " rows, only "
         << uneven->total << " rows are not padding; expected an axis without padding rows";
}

bool FusionVerifier::verifyContraction(const FusionNode &node, size_t pair) {
  const Contraction contraction = contractionOf(node);
  for (size_t i = 0; i < contraction.count; ++i)
    if (!verifyExtents(node, pair, contraction.first + i, contraction.second + i) ||
        !verifyAllExist(node, node.a(pair), contraction.first + i) ||
        !verifyAllExist(node, node.b(pair), contraction.second + i))
      return false;
  return contraction.count == 1 || verifyOuterAxes(node, pair, contraction);
}

/// If two axes are contracted, checks that the outer axis has one entry per device, that neither
/// axis is Stream, and that the inner axis is not DIDx.
bool FusionVerifier::verifyOuterAxes(const FusionNode &node, size_t pair,
                                     const Contraction &contraction) {
  const FusionTensor *a = node.a(pair), *b = node.b(pair);
  const size_t axis = contraction.first;
  if (ranks_ != 0 && shapes_[a][axis] != ranks_)
    return diags_.error(node.location)
           << "'" << keyword(node) << "' contracts two axes of " << ref(a)
           << "; expected the mesh size " << ranks_ << " as the extent of the outer axis, axis "
           << axis << ", got " << shapes_[a][axis];
  for (auto [operand, index] : {std::pair(a, axis), std::pair(b, contraction.second)})
    for (size_t i = index; i < index + contraction.count; ++i)
      if (operand->type.axes[i].kind == AxisKind::Stream ||
          (i != index && operand->type.axes[i].kind == AxisKind::DIDx))
        return diags_.error(node.location)
               << "'" << keyword(node) << "' contracts axis " << i << " of " << ref(operand)
               << ", expected a plain axis" << (i == index ? " or a DIDx axis" : "") << ", got "
               << name(operand->type.axes[i].kind);
  return true;
}

/// Checks that a `partial` type is valid, and that the node computes partial results.
void FusionVerifier::verifyPartial(const FusionNode &node) {
  const std::optional<DType> partial = node.partial;
  const DType result = node.result.type.dtype;
  if (!partial)
    return;
  if (!isContractedOverDevices(node))
    diags_.error(node.location) << "'partial' sets the type in which partial results are sent, but "
                                << ref(&node.result)
                                << " has no partial results: no contracted axis is DIDx";
  else if (!isPartialType(*partial, result))
    diags_.error(node.location) << "expected partial results of " << ref(&node.result)
                                << " to be of type " << name(result)
                                << (sizeOf(result) == 2 ? " or f32" : "") << ", got "
                                << name(*partial);
}

bool FusionVerifier::verifyExtents(const FusionNode &node, size_t pair, size_t lhsAxis,
                                   size_t rhsAxis) {
  const FusionTensor *a = node.a(pair), *b = node.b(pair);
  int64_t left = shapes_[a][lhsAxis], right = shapes_[b][rhsAxis];
  if (left == right)
    return true;
  return diags_.error(node.location)
         << "'" << keyword(node) << "' contracts axis " << lhsAxis << " of " << ref(a)
         << " with axis " << rhsAxis << " of " << ref(b) << "; expected equal extents, got " << left
         << " and " << right << otherGemmText(node);
}

/// Suggests `linear` instead of `matmul`, or vice versa, if the shapes would then match: weights
/// are [K, N] for a matmul and [N, K] for a linear.
std::string FusionVerifier::otherGemmText(const FusionNode &node) {
  const Contraction contraction = contractionOf(node);
  const size_t axes = shapes_[node.b()].size(), count = contraction.count;
  if (node.operands.size() > 2 || axes < count || !hasShape(&node.result))
    return "";
  const size_t second = node.transposeB ? 0 : axes - count;
  const llvm::ArrayRef<int64_t> left = shapes_[node.a()], right = shapes_[node.b()];
  Shape result = otherAxes(node.a(), contraction.first, count);
  llvm::append_range(result, otherAxes(node.b(), second, count));
  if (left.slice(contraction.first, count) != right.slice(second, count) ||
      result != shapes_[&node.result])
    return "";
  return node.transposeB ? "; 'matmul' contracts the last axes of " + ref(node.a()) +
                               " with the first of " + ref(node.b())
                         : "; 'linear' contracts the last axes of both";
}

void FusionVerifier::verifyResult(const FusionNode &node, const FusionTensor &result,
                                  const Shape &expected) {
  if (!hasShape(&result))
    return;
  const Shape &got = shapes_[&result];
  if (got.size() != expected.size()) {
    diags_.error(node.location) << "the shape of " << ref(&result) << " is " << str(got)
                                << ", expected " << str(expected);
    return;
  }
  for (size_t axis = 0; axis < got.size(); ++axis)
    if (got[axis] != expected[axis])
      diags_.error(node.location) << "axis " << axis << " of " << ref(&result) << " has extent "
                                  << got[axis] << ", expected " << expected[axis];
}

} // namespace

bool verify(const Fusion &fusion, Diagnostics &diags) {
  size_t errorsBefore = diags.errorCount();
  FusionVerifier(fusion, diags).run();
  return diags.errorCount() == errorsBefore && !diags.isFull();
}

} // namespace braid
