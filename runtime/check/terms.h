//===- runtime/check/terms.h - symbolic contents of memory ------------------------------------===//
//
// A term denotes the bytes of a tensor whose origin is known. A range of memory contains pieces of
// terms. Terms are uniqued, so equal contents have equal ids.
//
// A sum is a multiset of addends: nested sums are flattened and the order of additions is ignored,
// unless Terms is created with `keepOrder`. A pointwise function applies to one or two terms,
// element by element.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/fusion.h"
#include "runtime/plan/plan.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace braid::checker {

using TermId = uint32_t;
inline constexpr TermId kUndefined = 0; ///< unwritten bytes

/// `bytes` bytes of a term, starting at `offset`.
struct Piece {
  TermId term = kUndefined;
  int64_t offset = 0;
  int64_t bytes = 0;
  auto operator<=>(const Piece &) const = default;
};
/// The contents of consecutive bytes. Adjacent pieces that are contiguous in a term are merged.
using Pieces = std::vector<Piece>;
void append(Pieces &pieces, Piece piece);
int64_t bytesOf(const Pieces &pieces);

/// Contents and their element type.
struct TypedPieces {
  Pieces pieces;
  DType dtype;
};

/// Iterates over pieces with byte granularity.
struct PieceReader {
  const Pieces &pieces;
  size_t index = 0;
  int64_t used = 0;

  bool isAtEnd() const { return index == pieces.size(); }
  /// Returns the rest of the current piece.
  Piece here() const {
    const Piece &piece = pieces[index];
    return {piece.term, piece.offset + used, piece.bytes - used};
  }
  void skip(int64_t count) {
    used += count;
    if (used == pieces[index].bytes)
      ++index, used = 0;
  }
};

/// Maps values to consecutive numbers, starting at 0. Equal values have equal numbers.
template <class T> class Numbered {
public:
  size_t numberOf(const T &value) {
    const auto [entry, isNew] = numbers_.try_emplace(value, list_.size());
    if (isNew)
      list_.push_back(&entry->first);
    return entry->second;
  }
  const T &operator[](size_t number) const { return *list_[number]; }
  size_t size() const { return list_.size(); }

private:
  std::map<T, size_t> numbers_;
  std::vector<const T *> list_;
};

enum class TermKind : uint8_t {
  Undefined,
  Input,
  Gemm,
  Sum,
  Unrounded,
  Pointwise,
  EveryRow,
  Mixed
};

/// The second operand and the bias of a GEMM, which apply to every row of its first operand.
struct Factor {
  Pieces b, bias;
  DType dtype; ///< element type of the operands
  int64_t n, k;
  bool transposeB;
  DType result; ///< element type of the result
  auto operator<=>(const Factor &) const = default;
};

/// The operands of a sum. Parts are added elementwise in the order of `parts`; then the bias is
/// added to every row.
struct Summands {
  std::vector<TypedPieces> parts; ///< not empty; all of one element type
  TypedPieces bias;
  DType dtype;         ///< element type of the sum
  bool isCopy = false; ///< true for a pure type conversion, except of received partial results

  DType partial() const { return parts.front().dtype; }
};

/// One addend of a sum's element: element `element` of `term`.
struct Addend {
  TermId term;
  DType dtype;
  int64_t element;
  auto operator<=>(const Addend &) const = default;
};
using Addends = std::vector<Addend>;

class Terms {
public:
  /// `inputs` are the caller's tensors, for str(). If `keepOrder`, sums with different orders of
  /// additions or intermediate sums are distinct.
  explicit Terms(std::vector<const FusionTensor *> inputs = {}, bool keepOrder = false)
      : inputs_(std::move(inputs)), keepsOrder_(keepOrder) {
    unique(TermKind::Undefined, 0); // gets the id kUndefined
  }
  bool keepsOrder() const { return keepsOrder_; }

  /// Returns the term for a caller's tensor. `rank` is -1 if the tensor is equal on all ranks.
  TermId input(uint32_t number, int64_t rank, uint32_t run);
  /// Returns the term whose row i is row i of `a` times the factor.
  TermId gemm(TermId a, const Factor &factor);

  /// Applies gemm() to contents `a` (rows of k elements), piece by piece.
  Pieces gemmOf(const Pieces &a, const Factor &factor);
  /// Like gemmOf(), but adds an addend of the result's type before rounding. The product itself is
  /// not rounded. If the order of additions is kept, the result differs from every sum.
  Pieces addedTo(const Pieces &addend, const Pieces &a, const Factor &factor);
  Pieces sumOf(const Summands &summands);
  /// Applies a function to each element, or to each pair of elements, and rounds to `result`.
  Pieces pointwiseOf(PointwiseFunction function, llvm::ArrayRef<TypedPieces> operands,
                     DType result);
  /// Rounds unrounded terms. The result is the same as if the terms had been rounded when they were
  /// computed.
  Pieces rounded(const TypedPieces &exact, DType result);

  TermKind kind(TermId term) const { return terms_[term].kind; }
  /// Returns, in order, the addends of the sum's element that `addend` denotes, with nested sums
  /// flattened.
  Addends takenApart(const Addend &addend) const;
  /// Does the same for the first element of `piece`, which has type `dtype` if it is not a sum.
  Addends takenApart(const Piece &piece, DType dtype) const;
  DType partialOf(TermId sum) const { return sumAt(sum).partial; }

  // For diagnostics; implemented in term_text.cpp.
  /// Formats a term, for example "the matmul of %A of rank 2 in run 1".
  std::string str(TermId term) const;
  /// Formats the second operands of two GEMMs if they differ, else those of the GEMMs that compute
  /// the first operands, for example "8x8 of %B in run 1 starting at byte 0, transposed".
  std::optional<std::pair<std::string, std::string>> strFactors(TermId one, TermId other) const;
  /// Formats the order of additions, for example "(x + y) + z". `nameOf` names addends that are not
  /// sums.
  using NameFn = llvm::function_ref<std::string(const Addend &)>;
  std::string strOrder(const Addend &addend, NameFn nameOf) const;

private:
  struct Term {
    TermKind kind;
    int64_t first = 0, second = 0, third = 0; ///< input: number, rank, run; GEMM: operand, factor;
                                              ///< others: index in their list
    auto operator<=>(const Term &) const = default;
  };
  /// The addends of the sum's first element, or an addend and an unrounded product. The addends of
  /// element i are those i positions later.
  struct Sum {
    DType dtype, partial;
    Addends key;     ///< the addends in canonical order
    Addends addends; ///< the addends as ordered in the first sum with this key

    auto operator<=>(const Sum &other) const {
      return std::tie(dtype, partial, key) <=> std::tie(other.dtype, other.partial, other.key);
    }
  };
  /// A function application, represented by its first element, like a sum. All binary functions are
  /// commutative, so the operands are sorted by term.
  struct Function {
    PointwiseFunction function;
    DType dtype; ///< element type of the result
    Addends operands;
    auto operator<=>(const Function &) const = default;
  };

  TermId unique(TermKind kind, int64_t first, int64_t second = 0, int64_t third = 0) {
    return static_cast<TermId>(terms_.numberOf({kind, first, second, third}));
  }
  /// Creates a term distinct from all others, for rows or elements that span several blocks.
  TermId newTerm(TermKind kind);
  /// Concatenates the results of `fn` for each maximal range of elements in which each operand
  /// stays within one piece. `fn` receives the first element of each operand, the start of the
  /// range and its length. `result` is the element type of the results.
  using ElementsFn = llvm::function_ref<Piece(Addends here, int64_t at, int64_t count)>;
  Pieces elementwise(llvm::ArrayRef<TypedPieces> operands, DType result, ElementsFn fn);
  TermId everyRow(const Pieces &row);
  Piece sum(const Addends &addends, const Summands &summands, int64_t elements);
  Piece unrounded(Addends addends, DType dtype, int64_t elements);
  TermId termOf(DType dtype, DType partial, const Addends &addends);
  Addends inOrderOfTerms(Addends addends) const;
  bool isAccumulated(const Addends &addends, const Summands &summands) const;
  std::optional<Piece> sumOfOne(const Addends &addends, const Summands &summands, int64_t elements);
  Addend moved(const Addend &addend, int64_t by) const;
  Piece pointwise(Function function, int64_t elements);
  TermId roundedTerm(TermId exact, DType dtype, DType result);
  TermId termOf(const Function &function);
  bool isTakenApart(const Addend &addend) const;
  const Sum &sumAt(TermId sum) const { return sums_[static_cast<size_t>(terms_[sum].first)]; }
  const Function &functionAt(TermId function) const {
    return functions_[static_cast<size_t>(terms_[function].first)];
  }
  const Factor &factorOf(TermId gemm) const {
    return factors_[static_cast<size_t>(terms_[gemm].second)];
  }
  TermId rowsOf(TermId gemm) const { return static_cast<TermId>(terms_[gemm].first); }
  std::string strFactor(const Factor &factor) const;
  std::string strSum(const Sum &sum) const;

  const std::vector<const FusionTensor *> inputs_;
  const bool keepsOrder_;
  Numbered<Term> terms_;
  Numbered<Factor> factors_;
  Numbered<Sum> sums_;
  Numbered<Function> functions_;
  Numbered<Pieces> rows_;
};

} // namespace braid::checker
