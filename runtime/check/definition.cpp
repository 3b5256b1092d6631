//===- runtime/check/definition.cpp - symbolic contents of a fusion's tensors -----------------===//

#include "runtime/check/definition.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace braid::checker {
namespace {

bool isSharded(const FusionTensor &tensor, size_t axis) {
  return tensor.type.axes[axis].kind == AxisKind::DIDx;
}

bool isSharded(const FusionTensor &tensor) { return tensor.type.find(AxisKind::DIDx).has_value(); }

/// Returns the bytes [begin, begin + bytes) of consecutive pieces.
Pieces cut(const Pieces &whole, int64_t begin, int64_t bytes) {
  Pieces result;
  int64_t at = 0;
  for (const Piece &piece : whole) {
    int64_t from = std::max(at, begin), to = std::min(at + piece.bytes, begin + bytes);
    if (from < to)
      append(result, {piece.term, piece.offset + (from - at), to - from});
    at += piece.bytes;
  }
  return result;
}

} // namespace

Definition::Definition(const Fusion &fusion, Terms &terms) : fusion_(fusion), terms_(terms) {
  std::vector<const FusionTensor *> inputs = fusion.inputs();
  for (uint32_t i = 0; i < inputs.size(); ++i)
    numbers_[inputs[i]] = i;
}

const PartialResult *Definition::partialResult(TermId term) const {
  auto found = partials_.find(term);
  return found == partials_.end() ? nullptr : &found->second;
}

//===- Contents -------------------------------------------------------------------------------===//

const Pieces &Definition::contents(const FusionTensor &tensor, int64_t rank, uint32_t run) {
  return contents(tensor, rank, run, tensor.type.dtype);
}

const Pieces &Definition::contents(const FusionTensor &tensor, int64_t rank, uint32_t run,
                                   DType result) {
  const std::tuple key(&tensor, isSharded(tensor) ? rank : -1, run, result);
  auto known = known_.find(key);
  if (known == known_.end())
    known = known_.emplace(key, made(tensor, rank, run, result)).first;
  return known->second;
}

/// Returns the type of a computed tensor before rounding. Inputs and reshards have their declared
/// type.
DType Definition::exactType(const FusionTensor &tensor) const {
  const bool isRounded =
      numbers_.count(&tensor) || tensor.definition->kind == FusionOpKind::Reshard;
  const DType dtype = tensor.type.dtype;
  return isRounded || dtype == DType::F64 ? dtype : DType::F32;
}

/// Returns true if the GEMM sums partial results over devices; a single rank has none.
bool Definition::isPartial(const FusionNode &gemm) const {
  return fusion_.ranks() > 1 && isContractedOverDevices(gemm);
}

Pieces Definition::made(const FusionTensor &tensor, int64_t rank, uint32_t run, DType result) {
  auto input = numbers_.find(&tensor);
  if (input != numbers_.end())
    return inputContents(tensor, input->second, rank, run);
  const FusionNode &node = *tensor.definition;
  if (node.kind == FusionOpKind::Pointwise)
    return pointwiseOf(node, rank, run, result);
  if (node.kind == FusionOpKind::Reshard)
    return resharded(node, rank, run);
  if (isPartial(node))
    return sumOverDevices(node, rank, run, result);
  const DType exact = exactType(tensor);
  if (result != exact && addsUnrounded(tensor))
    return terms_.rounded({contents(tensor, rank, run, exact), exact}, result);
  Pieces sum;
  for (size_t i = 0; i < node.pairs(); ++i) {
    Factor factor = factorOf(node, i, contents(*node.b(i), rank, run), result);
    if (i == 0 && node.bias())
      factor.bias = contents(*node.bias(), rank, run);
    const Pieces rows = rowsOf(node, i, rank, run);
    sum = i == 0 ? terms_.gemmOf(rows, factor) : terms_.addedTo(sum, rows, factor);
  }
  return sum;
}

/// Returns true for a sum of products whose unrounded value a pointwise function reads. Products
/// are then added to the unrounded sum.
bool Definition::addsUnrounded(const FusionTensor &tensor) const {
  const std::vector<const FusionNode *> unused = fusion_.unusedNodes();
  return tensor.definition->pairs() > 1 && llvm::any_of(fusion_.nodes(), [&](const auto &node) {
           return node->kind == FusionOpKind::Pointwise &&
                  llvm::is_contained(node->operands, &tensor) &&
                  !llvm::is_contained(unused, node.get());
         });
}

/// Applies the function to the unrounded operands.
Pieces Definition::pointwiseOf(const FusionNode &node, int64_t rank, uint32_t run, DType result) {
  llvm::SmallVector<TypedPieces, 2> operands;
  for (const FusionTensor *operand : node.operands)
    operands.push_back({contents(*operand, rank, run, exactType(*operand)), exactType(*operand)});
  return terms_.pointwiseOf(node.function, operands, result);
}

Pieces Definition::resharded(const FusionNode &node, int64_t rank, uint32_t run) {
  const bool isMoved = isSharded(*node.a(), 0) && !isSharded(node.result, 0);
  return isMoved ? allBlocks(*node.a(), run) : contents(*node.a(), rank, run);
}

/// If the leading axis is split into blocks, padding rows come last, and their contents are
/// undefined.
Pieces Definition::inputContents(const FusionTensor &tensor, uint32_t number, int64_t rank,
                                 uint32_t run) {
  Shape shape = fusion_.localShape(tensor.type);
  const int64_t bytes = *byteCount(tensor.type.dtype, shape);
  if (const std::optional<UnevenRows> uneven = fusion_.unevenRows(tensor.type);
      uneven && uneven->axis == 1) {
    shape[0] = 1;
    shape[1] = isSharded(tensor, 0) ? uneven->rowsOf(rank) : uneven->total;
  }
  const int64_t existing = *byteCount(tensor.type.dtype, shape);
  Pieces pieces;
  if (existing > 0)
    append(pieces, {terms_.input(number, isSharded(tensor) ? rank : -1, run), 0, existing});
  if (existing < bytes)
    append(pieces, {kUndefined, 0, bytes - existing});
  return pieces;
}

/// Returns the factor for a pair of a GEMM's operands. `b` is the contents of the second operand.
Factor Definition::factorOf(const FusionNode &gemm, size_t pair, Pieces b, DType result) const {
  const DType dtype = gemm.a(pair)->type.dtype;
  const Shape shape = fusion_.localShape(gemm.a(pair)->type);
  const int64_t k =
      *elementCount(llvm::ArrayRef<int64_t>(shape).drop_front(contractionOf(gemm).first));
  const int64_t n = bytesOf(b) / sizeOf(dtype) / k;
  return {std::move(b), {}, dtype, n, k, gemm.transposeB, result};
}

/// Sums the partial results in rank order, and adds the bias once.
Pieces Definition::sumOverDevices(const FusionNode &gemm, int64_t rank, uint32_t run,
                                  DType result) {
  Summands summands{{}, {{}, gemm.result.type.dtype}, result};
  for (int64_t owner = 0; owner < fusion_.ranks(); ++owner)
    summands.parts.push_back({partialOf(gemm, owner, rank, run), partialType(gemm)});
  if (gemm.bias())
    summands.bias.pieces = contents(*gemm.bias(), rank, run);
  return terms_.sumOf(summands);
}

/// Returns the rows that `rank` needs from the partial result of `owner`.
Pieces Definition::partialOf(const FusionNode &gemm, int64_t owner, int64_t rank, uint32_t run) {
  const bool takesBlock = contractionOf(gemm).first != 0 && isSharded(gemm.result, 0);
  auto record = [&](const Pieces &pieces, size_t product) {
    for (const Piece &piece : pieces)
      partials_.try_emplace(piece.term, PartialResult{&gemm.result, owner, run, product});
  };
  Pieces partial;
  for (size_t i = 0; i < gemm.pairs(); ++i) {
    const Pieces &a = contents(*gemm.a(i), owner, run), &b = contents(*gemm.b(i), owner, run);
    const Factor factor =
        factorOf(gemm, i, isSharded(*gemm.b(i)) ? b : blockOf(b, owner), partialType(gemm));
    const Pieces rows = takesBlock ? blockOf(a, rank) : a, product = terms_.gemmOf(rows, factor);
    if (gemm.pairs() > 1)
      record(product, i + 1);
    partial = i == 0 ? product : terms_.addedTo(partial, rows, factor);
  }
  record(partial, 0);
  return partial;
}

/// Returns the rows of a pair's first operand from which the result's rows on `rank` are computed.
Pieces Definition::rowsOf(const FusionNode &gemm, size_t pair, int64_t rank, uint32_t run) {
  const FusionTensor &a = *gemm.a(pair);
  const bool isSplit = isSharded(gemm.result, 0);
  if (contractionOf(gemm).first == 0 || isSharded(a, 0) == isSplit)
    return contents(a, rank, run);
  return isSplit ? blockOf(contents(a, rank, run), rank) : allBlocks(a, run);
}

Pieces Definition::allBlocks(const FusionTensor &tensor, uint32_t run) {
  Pieces rows;
  for (int64_t owner = 0; owner < fusion_.ranks(); ++owner)
    for (const Piece &piece : contents(tensor, owner, run))
      append(rows, piece);
  return rows;
}

/// Returns one of N equal blocks, where N is the number of ranks.
Pieces Definition::blockOf(const Pieces &whole, int64_t index) const {
  const int64_t bytes = bytesOf(whole) / fusion_.ranks();
  return cut(whole, index * bytes, bytes);
}

//===- Support --------------------------------------------------------------------------------===//

std::string Definition::whyNot() const {
  for (const auto &node : fusion_.nodes())
    if (const FusionTensor *tensor = resultOf(*node))
      if (fusion_.unevenRows(tensor->type).value_or(UnevenRows{1, 1, 1, 1}).axis != 1)
        return fmt::format("%{} has padding rows between other rows", tensor->name);
  if (fusion_.ranks() == 1)
    return ""; // nothing is sharded
  for (const auto &node : fusion_.nodes()) {
    if (!resultOf(*node) || node->kind == FusionOpKind::Input)
      continue;
    std::string why = whyNot(*node);
    if (!why.empty())
      return why;
  }
  return "";
}

/// Elementwise nodes can be followed only if their elements keep their layout.
std::string Definition::whyNotElementwise(const FusionNode &node) const {
  const FusionTensor &result = *resultOf(node);
  const bool isReshard = node.kind == FusionOpKind::Reshard;
  for (const FusionTensor *operand : node.operands) {
    for (size_t axis = 0; axis < result.type.axes.size(); ++axis)
      if (isSharded(*operand, axis) != isSharded(result, axis) &&
          !(isReshard && axis == 0 && isSharded(*operand, axis)))
        return fmt::format("%{} reshards axis {} of %{}", result.name, axis, operand->name);
  }
  return "";
}

/// Rows are followed in their memory layout, so only the leading axis of the first operand may be
/// gathered or sharded.
std::string Definition::whyNot(const FusionNode &node) const {
  if (isElementwise(node))
    return whyNotElementwise(node);
  std::string why;
  for (size_t i = 0; why.empty() && i < node.pairs(); ++i)
    why = whyNotPair(node, i);
  return why;
}

std::string Definition::whyNotPair(const FusionNode &gemm, size_t pair) const {
  const FusionTensor &result = gemm.result, &a = *gemm.a(pair), &b = *gemm.b(pair);
  const auto [first, second, count] = contractionOf(gemm);
  auto contracts = [&](size_t axis, const FusionTensor &operand) {
    return fmt::format("%{} contracts axis {} of %{}, which is not sharded", result.name, axis,
                       operand.name);
  };
  if (isPartial(gemm) && !isSharded(a, first))
    return contracts(first, a);
  if (isPartial(gemm) && gemm.transposeB && !isSharded(b, second))
    return contracts(second, b);
  for (size_t axis = 1; axis < first; ++axis)
    if (isSharded(a, axis) != isSharded(result, axis))
      return fmt::format("%{} reshards axis {} of %{}, which is not the leading axis", result.name,
                         axis, a.name);
  size_t column = first;
  for (size_t axis = 0; axis < b.type.axes.size(); ++axis)
    if ((axis < second || axis >= second + count) &&
        isSharded(b, axis) != isSharded(result, column++))
      return fmt::format("%{} reshards an axis of its second operand, %{}", result.name, b.name);
  return "";
}

} // namespace braid::checker
