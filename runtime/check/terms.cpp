//===- runtime/check/terms.cpp - symbolic contents of memory ----------------------------------===//

#include "runtime/check/terms.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace braid::checker {

void append(Pieces &pieces, Piece piece) {
  if (piece.term == kUndefined)
    piece.offset = 0; // all undefined bytes are equal
  if (!pieces.empty()) {
    Piece &last = pieces.back();
    if (last.term == piece.term &&
        (piece.term == kUndefined || last.offset + last.bytes == piece.offset)) {
      last.bytes += piece.bytes;
      return;
    }
  }
  pieces.push_back(piece);
}

int64_t bytesOf(const Pieces &pieces) {
  int64_t bytes = 0;
  for (const Piece &piece : pieces)
    bytes += piece.bytes;
  return bytes;
}

TermId Terms::input(uint32_t number, int64_t rank, uint32_t run) {
  return unique(TermKind::Input, number, rank, run);
}

TermId Terms::newTerm(TermKind kind) { return unique(kind, static_cast<int64_t>(terms_.size())); }

//===- GEMMs ----------------------------------------------------------------------------------===//

TermId Terms::gemm(TermId a, const Factor &factor) {
  return unique(TermKind::Gemm, a, static_cast<int64_t>(factors_.numberOf(factor)));
}

Pieces Terms::gemmOf(const Pieces &a, const Factor &factor) {
  int64_t rowIn = factor.k * sizeOf(factor.dtype), rowOut = factor.n * sizeOf(factor.result);
  Pieces result;
  for (const Piece &piece : a) {
    // A row that spans two blocks belongs to neither of them.
    if (piece.offset % rowIn != 0 || piece.bytes % rowIn != 0)
      return {{newTerm(TermKind::Mixed), 0, bytesOf(a) / rowIn * rowOut}};
    // The product of undefined rows is undefined.
    const TermId product = piece.term == kUndefined ? kUndefined : gemm(piece.term, factor);
    append(result, {product, piece.offset / rowIn * rowOut, piece.bytes / rowIn * rowOut});
  }
  return result;
}

//===- Elements -------------------------------------------------------------------------------===//

namespace {

bool areWhole(const TypedPieces &operand) {
  return llvm::all_of(operand.pieces, [size = sizeOf(operand.dtype)](const Piece &piece) {
    return piece.offset % size == 0 && piece.bytes % size == 0;
  });
}

bool isUndefined(const Addend &addend) { return addend.term == kUndefined; }

} // namespace

Pieces Terms::elementwise(llvm::ArrayRef<TypedPieces> operands, DType result, ElementsFn fn) {
  const TypedPieces &first = operands.front();
  if (!llvm::all_of(operands, areWhole)) // halves of two elements do not form an element
    return {{newTerm(TermKind::Mixed), 0,
             bytesOf(first.pieces) / sizeOf(first.dtype) * sizeOf(result)}};
  std::vector<PieceReader> readers;
  for (const TypedPieces &operand : operands)
    readers.push_back({operand.pieces});
  Pieces made;
  for (int64_t at = 0, count = 0; !readers.front().isAtEnd(); at += count) {
    Addends here;
    count = INT64_MAX;
    for (const auto &[reader, operand] : llvm::zip(readers, operands)) {
      const Piece piece = reader.here();
      const int64_t size = sizeOf(operand.dtype);
      here.push_back({piece.term, operand.dtype, piece.offset / size});
      count = std::min(count, piece.bytes / size);
    }
    append(made, fn(std::move(here), at, count));
    for (const auto &[reader, operand] : llvm::zip(readers, operands))
      reader.skip(count * sizeOf(operand.dtype));
  }
  return made;
}

//===- Sums -----------------------------------------------------------------------------------===//

Pieces Terms::sumOf(const Summands &summands) {
  const Pieces &bias = summands.bias.pieces;
  const DType biasType = summands.bias.dtype;
  const int64_t row = bytesOf(bias) / sizeOf(biasType);
  return elementwise(summands.parts, summands.dtype,
                     [&](Addends addends, int64_t at, int64_t count) {
                       // If the part is undefined on every rank, the element is padding.
                       if (llvm::all_of(addends, isUndefined))
                         return Piece{kUndefined, 0, count * sizeOf(summands.dtype)};
                       if (row != 0)
                         addends.push_back({everyRow(bias), biasType, at % row});
                       return sum(addends, summands, count);
                     });
}

Pieces Terms::addedTo(const Pieces &addend, const Pieces &a, const Factor &factor) {
  const DType result = factor.result;
  const std::vector<TypedPieces> parts = {{gemmOf(a, factor), result}, {addend, result}};
  if (!keepsOrder_)
    return sumOf({parts, {{}, factor.dtype}, result});
  return elementwise(parts, result, [&](Addends here, int64_t, int64_t count) {
    return llvm::all_of(here, isUndefined) ? Piece{kUndefined, 0, count * sizeOf(result)}
                                           : unrounded(std::move(here), result, count);
  });
}

/// Returns the sum of a product and an addend, with elements numbered like those of the product.
Piece Terms::unrounded(Addends addends, DType dtype, int64_t elements) {
  const int64_t first = addends.front().element;
  for (Addend &addend : addends)
    addend = moved(addend, -first);
  const auto number = static_cast<int64_t>(sums_.numberOf({dtype, dtype, addends, addends}));
  const int64_t size = sizeOf(dtype);
  return {unique(TermKind::Unrounded, number), first * size, elements * size};
}

/// Returns the term for a repeated row, whose elements are numbered within the row.
TermId Terms::everyRow(const Pieces &row) {
  return unique(TermKind::EveryRow, static_cast<int64_t>(rows_.numberOf(row)), bytesOf(row));
}

/// Returns the corresponding addend for the element `by` positions later.
Addend Terms::moved(const Addend &addend, int64_t by) const {
  Addend result = addend;
  result.element += by;
  if (kind(addend.term) == TermKind::EveryRow) {
    const int64_t row = terms_[addend.term].second / sizeOf(addend.dtype);
    result.element = (result.element % row + row) % row;
  }
  return result;
}

static DType accumulatorOf(DType dtype) { return dtype == DType::F64 ? dtype : DType::F32; }

/// Returns true if a copy converts a value that was rounded to the source type: that type is not an
/// accumulator type, or the conversion widens.
static bool keepsRounding(const Summands &summands) {
  const DType partial = summands.partial();
  return summands.isCopy &&
         (partial != accumulatorOf(partial) || sizeOf(summands.dtype) > sizeOf(partial));
}

/// Returns true for a nested sum that may be flattened because it rounds to the type of its
/// addends. A sum that rounds to another type is not equivalent to its addends.
bool Terms::isTakenApart(const Addend &addend) const {
  if (kind(addend.term) != TermKind::Sum)
    return false;
  const Sum &sum = sumAt(addend.term);
  return sum.dtype == addend.dtype && sum.partial == addend.dtype;
}

Addends Terms::takenApart(const Addend &addend) const {
  Addends result;
  for (const Addend &inner : sumAt(addend.term).addends) {
    const Addend here = moved(inner, addend.element);
    const Addends parts = isTakenApart(here) ? takenApart(here) : Addends{here};
    result.insert(result.end(), parts.begin(), parts.end());
  }
  return result;
}

Addends Terms::takenApart(const Piece &piece, DType dtype) const {
  const bool isSum = kind(piece.term) == TermKind::Sum;
  const int64_t size = sizeOf(isSum ? sumAt(piece.term).dtype : dtype);
  const Addend whole{piece.term, dtype, piece.offset / size};
  return isSum ? takenApart(whole) : Addends{whole};
}

/// `addends` are the addends of the first element. The sum's elements are numbered like those of
/// the first addend, or, if order is not kept, of the first addend in term order.
Piece Terms::sum(const Addends &addends, const Summands &summands, int64_t elements) {
  if (std::optional<Piece> one = sumOfOne(addends, summands, elements))
    return *one;
  const bool takesApart = !keepsOrder_ && !keepsRounding(summands);
  Addends made;
  for (const Addend &addend : addends) {
    const Addends parts = takesApart && isTakenApart(addend) ? takenApart(addend) : Addends{addend};
    made.insert(made.end(), parts.begin(), parts.end());
  }
  const int64_t first = (keepsOrder_ ? made : inOrderOfTerms(made)).front().element;
  for (Addend &addend : made)
    addend = moved(addend, -first);
  const TermId term = termOf(summands.dtype, summands.partial(), made);
  return {term, first * sizeOf(summands.dtype), elements * sizeOf(summands.dtype)};
}

/// Sorts addends by term, with biases last.
Addends Terms::inOrderOfTerms(Addends addends) const {
  auto rank = [&](const Addend &addend) {
    return std::pair(kind(addend.term) == TermKind::EveryRow, addend);
  };
  std::sort(addends.begin(), addends.end(),
            [&](const Addend &a, const Addend &b) { return rank(a) < rank(b); });
  return addends;
}

TermId Terms::termOf(DType dtype, DType partial, const Addends &addends) {
  const Addends key = keepsOrder_ ? addends : inOrderOfTerms(addends);
  return unique(TermKind::Sum,
                static_cast<int64_t>(sums_.numberOf({dtype, partial, key, addends})));
}

//===- Sums of one part -----------------------------------------------------------------------===//

/// Returns true if the sum's only part is an unrounded GEMM result without a bias.
bool Terms::isAccumulated(const Addends &addends, const Summands &summands) const {
  const Addend &part = addends.front();
  if (summands.parts.size() != 1 || kind(part.term) != TermKind::Gemm)
    return false;
  const Factor &factor = factorOf(part.term);
  const int64_t row = bytesOf(summands.bias.pieces) / sizeOf(summands.bias.dtype);
  const bool meetsBias =
      row == 0 || (row == factor.n && (part.element - addends.back().element) % row == 0);
  return factor.result == accumulatorOf(factor.dtype) && part.dtype == factor.result &&
         factor.bias.empty() && meetsBias;
}

/// Simplifies a sum of one part to the part itself if it is not rounded again, or to a GEMM that
/// adds the bias and rounds.
std::optional<Piece> Terms::sumOfOne(const Addends &addends, const Summands &summands,
                                     int64_t elements) {
  const Addend &part = addends.front();
  const int64_t size = sizeOf(summands.dtype);
  const Piece same{part.term, part.element * size, elements * size};
  if (addends.size() == 1 && summands.partial() == summands.dtype)
    return same;
  if (!isAccumulated(addends, summands))
    return std::nullopt;
  Factor factor = factorOf(part.term);
  factor.bias = summands.bias.pieces;
  factor.result = summands.dtype;
  return Piece{gemm(rowsOf(part.term), factor), same.offset, same.bytes};
}

//===- Pointwise functions --------------------------------------------------------------------===//

Pieces Terms::pointwiseOf(PointwiseFunction function, llvm::ArrayRef<TypedPieces> operands,
                          DType result) {
  return elementwise(operands, result, [&](Addends here, int64_t, int64_t count) {
    return llvm::any_of(here, isUndefined) ? Piece{kUndefined, 0, count * sizeOf(result)}
                                           : pointwise({function, result, std::move(here)}, count);
  });
}

/// Returns the function's result, with elements numbered like those of the first operand.
Piece Terms::pointwise(Function function, int64_t elements) {
  std::sort(function.operands.begin(), function.operands.end());
  const int64_t first = function.operands.front().element;
  for (Addend &operand : function.operands)
    operand = moved(operand, -first);
  const int64_t width = sizeOf(function.dtype);
  return {termOf(function), first * width, elements * width};
}

TermId Terms::termOf(const Function &function) {
  return unique(TermKind::Pointwise, static_cast<int64_t>(functions_.numberOf(function)));
}

/// Returns the function, sum or GEMM `exact`, whose results are in the accumulator's type `dtype`,
/// with its results rounded to `result` instead. Returns kUndefined for other terms.
TermId Terms::roundedTerm(TermId exact, DType dtype, DType result) {
  if (kind(exact) == TermKind::Pointwise) {
    Function function = functionAt(exact);
    const bool isExact = function.dtype == dtype && dtype == accumulatorOf(dtype);
    function.dtype = result;
    return isExact ? termOf(function) : kUndefined;
  }
  if (kind(exact) == TermKind::Sum) {
    const Sum &sum = sumAt(exact);
    const bool isExact = sum.dtype == dtype && dtype == accumulatorOf(dtype);
    return isExact ? termOf(result, sum.partial, sum.addends) : kUndefined;
  }
  if (kind(exact) != TermKind::Gemm)
    return kUndefined;
  Factor factor = factorOf(exact);
  const bool isExact = factor.result == dtype && dtype == accumulatorOf(factor.dtype);
  factor.result = result;
  return isExact ? gemm(rowsOf(exact), factor) : kUndefined;
}

Pieces Terms::rounded(const TypedPieces &exact, DType result) {
  const int64_t size = sizeOf(exact.dtype), width = sizeOf(result);
  Pieces made;
  for (const Piece &piece : exact.pieces) {
    const TypedPieces here{{piece}, exact.dtype};
    const TermId term = areWhole(here) ? roundedTerm(piece.term, exact.dtype, result) : kUndefined;
    if (term != kUndefined)
      append(made, {term, piece.offset / size * width, piece.bytes / size * width});
    else
      for (const Piece &sum : sumOf({{here}, {{}, result}, result, true}))
        append(made, sum);
  }
  return made;
}

} // namespace braid::checker
