//===- runtime/check/terms.h - symbolic contents of memory ------------------------------------===//
//
// A term is a tensor's worth of bytes with a known origin; a stretch of memory holds a piece of a
// term. Terms are uniqued, so equal contents are equal numbers.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/plan.h"

#include <map>
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

enum class TermKind : uint8_t { Undefined, Input, Gemm, Sum, Mixed };

/// What a GEMM does to each row of its first operand, and with what.
struct Factor {
  Pieces b, bias;
  DType dtype;
  int64_t n, k;
  bool transposeB;
  auto operator<=>(const Factor &) const = default;
};

class Terms {
public:
  /// A caller's tensor. `rank` is -1 for one that all ranks hold alike.
  TermId input(uint32_t number, int64_t rank, uint32_t run);
  /// Row i of the result is row i of `a` times the factor.
  TermId gemm(TermId a, const Factor &factor);
  /// Element by element, b's bytes shifted by `shift` against a's.
  TermId sum(TermId a, TermId b, int64_t shift);
  /// Something that only its own event makes: equal to nothing else.
  TermId mixed();

  /// The GEMM of contents `a` (rows of k elements), piece by piece.
  Pieces gemmOf(const Pieces &a, const Factor &factor);
  Pieces sumOf(const Pieces &a, const Pieces &b);

  /// "rows of %A of rank 2, run 1", for messages; `inputs` are the names of the parameters.
  std::string str(TermId term, const std::vector<std::string> &inputs) const;

private:
  struct Term {
    TermKind kind;
    int64_t first = 0, second = 0, third = 0; ///< input: number, rank, run; others: operand terms
  };
  using Key = std::tuple<TermKind, int64_t, int64_t, int64_t>;
  TermId unique(TermKind kind, int64_t first, int64_t second, int64_t third);

  std::vector<Term> terms_ = {{TermKind::Undefined}};
  std::map<Key, TermId> uniqued_;
  std::map<Factor, int64_t> factors_;
};

} // namespace braid::checker
