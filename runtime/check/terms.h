//===- runtime/check/terms.h - symbolic contents of memory ------------------------------------===//
//
// A term is a tensor's worth of bytes with a known origin; a stretch of memory holds a piece of a
// term. Terms are uniqued, so equal contents are equal numbers.
//
// A sum is the multiset of what it adds: sums of sums are taken apart, and the order of additions
// is forgotten, unless Terms are told to keep both. A pointwise function is the function of one or
// two terms, element by element.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/plan.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace braid::checker {

using TermId = uint32_t;
inline constexpr TermId kUndefined = 0; ///< nothing was written

/// `bytes` bytes of a term from `offset` on.
struct Piece {
  TermId term = kUndefined;
  int64_t offset = 0;
  int64_t bytes = 0;
  auto operator<=>(const Piece &) const = default;
};
/// Contents of consecutive bytes. Neighbours that continue each other are one piece.
using Pieces = std::vector<Piece>;
void append(Pieces &pieces, Piece piece);
int64_t bytesOf(const Pieces &pieces);

/// Contents whose elements have that type.
struct TypedPieces {
  Pieces pieces;
  DType dtype;
};

/// Goes through pieces, byte by byte if need be.
struct PieceReader {
  const Pieces &pieces;
  size_t index = 0;
  int64_t used = 0;

  bool isAtEnd() const { return index == pieces.size(); }
  /// The rest of the present piece.
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

/// Gives equal values equal numbers, from 0 on.
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

/// A GEMM's second operand and bias, by which each row of the first operand is multiplied.
struct Factor {
  Pieces b, bias;
  DType dtype; ///< type of the operands
  int64_t n, k;
  bool transposeB;
  DType result; ///< type of the result's elements
  auto operator<=>(const Factor &) const = default;
};

/// The operands of a sum. Parts are added element by element in the order of `parts`, and then the
/// bias to every row.
struct Summands {
  std::vector<Pieces> parts;
  TypedPieces bias;
  DType partial;       ///< type of the parts
  DType dtype;         ///< type of the sum
  bool isCopy = false; ///< a copy of one part into another type: no partial results were sent
};

/// One of those that are added: the element of a term that meets one of the sum's.
struct Addend {
  TermId term;
  DType dtype;
  int64_t element;
  auto operator<=>(const Addend &) const = default;
};
using Addends = std::vector<Addend>;

class Terms {
public:
  /// `keepOrder`: sums that add in another order, or by way of other sums, are other terms.
  explicit Terms(bool keepOrder = false) : keepsOrder_(keepOrder) {
    unique(TermKind::Undefined, 0); // is kUndefined
  }
  bool keepsOrder() const { return keepsOrder_; }

  /// A caller's tensor. `rank` is -1 for one that all ranks hold alike.
  TermId input(uint32_t number, int64_t rank, uint32_t run);
  /// Row i of the result is row i of `a` times the factor.
  TermId gemm(TermId a, const Factor &factor);

  /// The GEMM of contents `a` (rows of k elements), piece by piece.
  Pieces gemmOf(const Pieces &a, const Factor &factor);
  /// The same, with an addend of the result's type, rounded once. The GEMM's own part of that is
  /// not rounded: where the order of additions is kept, it is a part of no other sum.
  Pieces addedTo(const Pieces &addend, const Pieces &a, const Factor &factor);
  Pieces sumOf(const Summands &summands);
  /// A function of each element, or of each pair of elements, rounded to `result`.
  Pieces pointwiseOf(PointwiseFunction function, llvm::ArrayRef<TypedPieces> operands,
                     DType result);
  /// Rounds terms that have not been rounded yet. The result is the same as if they had been
  /// rounded when they were made.
  Pieces rounded(const TypedPieces &exact, DType result);

  TermKind kind(TermId term) const { return terms_[term].kind; }
  /// The addends, in order, of the element of a term that `addend` names. Sums among them are
  /// replaced by their own addends. If `addend` is no sum, it is the only addend.
  Addends takenApart(const Addend &addend) const;
  /// The same for the first element of a piece; `dtype` is its type if it is no sum.
  Addends takenApart(const Piece &piece, DType dtype) const;
  /// The type of a sum's parts.
  DType partialOf(TermId sum) const { return sumAt(sum).partial; }

  // For messages; see term_text.cpp.
  /// "the matmul of %A of rank 2 in run 1"; `inputs` are the names of the parameters.
  std::string str(TermId term, const std::vector<std::string> &inputs) const;
  /// The second operands of two GEMMs, or of GEMMs in their first operands, if they differ:
  /// "8x8 of %B in run 1 from byte 0 on, transposed".
  std::optional<std::pair<std::string, std::string>>
  strFactors(TermId one, TermId other, const std::vector<std::string> &inputs) const;
  /// The order of additions: "(x + y) + z"; `nameOf` says what to call those that are no sums.
  using NameFn = llvm::function_ref<std::string(const Addend &)>;
  std::string strOrder(const Addend &addend, NameFn nameOf) const;

private:
  struct Term {
    TermKind kind;
    int64_t first = 0, second = 0, third = 0; ///< input: number, rank, run; GEMM: operand, factor;
                                              ///< others: number in their list
    auto operator<=>(const Term &) const = default;
  };
  /// Addends of the sum's first element, counted from there: those of element i are i further on.
  struct Sum {
    DType dtype, partial;
    Addends key;     ///< the addends in the order that counts
    Addends addends; ///< in the order in which one who made it first adds them

    auto operator<=>(const Sum &other) const {
      return std::tie(dtype, partial, key) <=> std::tie(other.dtype, other.partial, other.key);
    }
  };
  /// A function, described by its first element, as a sum is. The operands of the elements are in
  /// the order of terms, because all functions of two operands commute.
  struct Function {
    PointwiseFunction function;
    DType dtype; ///< type of the result
    Addends operands;
    auto operator<=>(const Function &) const = default;
  };

  TermId unique(TermKind kind, int64_t first, int64_t second = 0, int64_t third = 0) {
    return static_cast<TermId>(terms_.numberOf({kind, first, second, third}));
  }
  /// A term that is equal to no other one. Mixed: rows or elements made of several blocks.
  /// Unrounded: a GEMM's sum with an addend, where the order of additions is kept.
  TermId newTerm(TermKind kind);
  TermId everyRow(const Pieces &row);
  Piece sum(const Addends &addends, const Summands &summands, int64_t elements);
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
  /// The first operand.
  TermId rowsOf(TermId gemm) const { return static_cast<TermId>(terms_[gemm].first); }
  std::string strGemm(TermId gemm, const std::vector<std::string> &inputs) const;
  std::string strFactor(const Factor &factor, const std::vector<std::string> &inputs) const;
  std::string strSum(const Sum &sum, const std::vector<std::string> &inputs) const;
  std::string strFunction(const Function &function, const std::vector<std::string> &inputs) const;

  const bool keepsOrder_;
  Numbered<Term> terms_;
  Numbered<Factor> factors_;
  Numbered<Sum> sums_;
  Numbered<Function> functions_;
  Numbered<Pieces> rows_;
};

} // namespace braid::checker
