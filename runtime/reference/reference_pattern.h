//===- runtime/reference/reference_pattern.h - inputs in which no error can hide --------------===//
//
// bf16 holds integers exactly up to 256 only, and a sum over thousands of elements must stay below
// that, in any order of adding, while every element counts. So the inputs know each other:
//
// Second operands (B, w). The columns that one rank holds are distributed over the residue classes
// of k modulo P = min(local columns, depth): a column is a weighted sum over one class, each k
// belongs to a column of every rank, and the weights are 1, -1 and 2, never equal for k and k + 1
// (cyclically). So one element of a first operand off by one changes the result on every rank by
// its weight. A square operand is not its own transpose, if it has three columns or more.
//
// First operands (A, x). Every row holds one mark, 61 ... 121. Its class (modulo G, the greatest
// common divisor of the P of its consumers) holds nothing else but pairs that cancel: +v and -v of
// equal weight in every column. The other classes hold such pairs, too, and at most three values
// without a partner, |v| <= 3. So a column of the GEMM is one of
//
//    mark * weight   in 61 ... 121, -121 ... -61 or 122 ... 242, where the mark's k belongs to it
//    at most 12      in magnitude otherwise
//
// and these ranges do not meet: a result tells which mark it saw and by which weight. Hence
//  * a row exchanged for another one with a different mark, or for nothing, changes the result: in
//    the column of the right mark there is a wrong mark or none. Marks differ between iterations
//    (up to 60 apart), blocks (up to 60 apart), neighbouring rows, and between blocks up to 7 apart
//    that are also stale by up to 4 iterations;
//  * elements moved by one place, inside a row or across rows, change the result: a mark reaches
//    another column, or the same column with another weight. Either way some column changes by at
//    least 61, less what the pairs weigh that no longer cancel: those cut by an end of the row (6),
//    what came over that end (6), the one irregular step of the weights (9), and values without a
//    partner before and after (12 and 12).
// Nearly every element is nonzero and random, so that pieces smaller than a row are seen as well.
// Biases stay within 256 with all of that, and vary with column and iteration.
//
// A second operand whose first operand is itself a GEMM has a single 1 in every column instead,
// so that chains of GEMMs do not grow; there an element counts in some iterations only, unless
// the local columns are at least as many as the depth. A GEMM used as a second operand, or an
// input in two roles, is computed as it is; what is then not representable is reported, not
// compared.
//
// Sums over devices. Where a contracted axis is distributed, every rank has a partial result, and
// what can go wrong is another: a partial result is missing, added twice, or was computed from
// another iteration, for another row, or by another rank. So every rank adds to every element of
// the result, each another amount, its term (reference_contributions.h):
//
//    one rank's term is big, 61 ... 121; those of up to 15 others are small; which rank's is which
//    turns by one with every iteration, block, row and vector (below);
//    small terms come from bands of magnitudes that do not meet: for 16 ranks 1, 2, ..., 15, for 8
//    ranks 1 ... 4, 5 ... 8, ..., 25 ... 28, for 2 ranks 1 ... 60. Place in the band and sign are
//    random;
//    the big term makes up for the small ones, so that the sum is what a mark was above, modulo 61:
//    that of other rows, blocks and iterations is another one. It is 61 or more, always.
//
// All magnitudes add up to 241 at most, and 13 more for biases: partial results, results, and sums
// of any of them in any order are exact, also where they travel as bf16. Biases are never zero.
//
// The terms come about like this. A rank's range of the depth is its shard, and P is the smaller
// of its length and the local columns. Every class of k modulo P within a shard holds, weighted,
// one term: pairs that cancel, one mark, and a companion of the mark where their number is odd.
// Weights are 1 and -1, never equal for k and k + 1. A column reads one class of every shard, and
// all its P classes are read on every rank. The terms that one column adds up are one vector; a row
// has P vectors. The sign of a column is random, and the same for all shards.
//
// What holds for every element of the result, always (up to 16 ranks):
//  * a partial result that is missing or added twice changes it: no term is zero;
//  * another rank's partial result of the same row in place of the right one changes it, because
//    it is in another band; so does the same rank's of another block, of a row of the block up to
//    ranks - 1 away, or from up to ranks - 1 iterations ago (or any number that ranks does not
//    divide);
//  * all partial results of another iteration, row or block in place of the right ones change it
//    as another mark would above, because the sum is another (unless a bias makes up for that);
//  * one element of an operand that is off by one changes the row or column, as no weight and no
//    element of a first operand is zero; a bias that is missing or added by every rank changes it.
// What holds for most elements: where mistakes cancel, as those of a row and a rank do when the
// next rank's partial result is that of the block before, or where the age is a multiple of ranks,
// the term is in the band of the right one. It differs then but for one in 61 big and one in 2 W
// small terms, where W is the width of a band: one in 120 for 2 ranks, 8 for 8 ranks, 2 for 12 and
// more. Vectors are drawn independently, so that of a row of P columns about one in (2 W)^P is not
// seen. Elements of a first operand that move by one place meet the weight of the other sign
// (P = 1) or take the term to a column with another one (P > 1); what hides that is a pair cut by
// an end of the shard, in two of the P classes at most. With more than 16 ranks, 16 neighbours
// have terms in a row, others have zero; rows and iterations take turns. With P = 1, columns
// differ by their sign alone, and so do the shards of a second operand.
//
// Where the first operand of a sum is a GEMM of inputs itself (the second half of an MLP), the
// terms are in that one's first operand. Its depth is cut into P classes, a multiple of the number
// of ranks; as many neighbouring classes as ranks are the terms of one vector. Column j of the GEMM
// in between reads the same vector on every rank, and on each another term; the second operand of
// the sum has one entry for every column and shard, all with the same j. All the above holds, and
// for a block of rows that one rank gathered as for its partial result; but
//  * where the local columns are fewer than the depth of a shard, other elements of the GEMM in
//    between count in every iteration, and if ranks do not divide that depth, a few stale terms
//    are in the band of the right ones;
//  * with a bias in between, which is 1 or -1, a term of 1 may become zero;
//  * with a depth less than ranks there is no place for a term of each, so several are alike.
// Where the first operand is the end of a longer chain, a column has a single 1 again: one
// rank adds to it, and which one varies with column and iteration.
//
// Where a fusion has pointwise nodes, reference_function_pattern.h has other patterns.
//
//===-------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/reference/reference_graph.h"

namespace braid::reference {

/// The contents of one input for every iteration. Immutable, so safe to share.
class InputPattern {
public:
  /// Receives elements [begin, begin + values.size()), counted in the tensor asked for.
  using Sink = llvm::function_ref<void(int64_t begin, llvm::ArrayRef<int8_t> values)>;

  explicit InputPattern(const Placement &placement, int exponent = 0)
      : placement_(placement), exponent_(exponent) {}
  virtual ~InputPattern() = default;

  /// All values count times two to this power.
  int exponent() const { return exponent_; }
  /// Elements that row() makes at once; the global tensor is a number of such rows.
  virtual int64_t rowWidth() const { return placement_.globalElements(); }
  /// Row `index` of the global tensor; `out` has rowWidth() elements.
  virtual void row(uint32_t iteration, int64_t index, llvm::MutableArrayRef<int8_t> out) const;
  /// The global tensor. What the sink is not given is zero.
  virtual void whole(uint32_t iteration, Sink sink) const = 0;
  /// One rank's part, in its own coordinates. What the sink is not given is zero.
  virtual void part(uint32_t iteration, int64_t rank, Sink sink) const;

protected:
  Placement placement_; ///< of elements
  int exponent_;
};

/// See the top of this file.
class FirstPattern final : public InputPattern {
public:
  struct Options {
    int64_t classes = 1;      ///< G: modulo this, the mark is alone in its class
    int64_t pairing = 1;      ///< partners are equal modulo this, a multiple of `classes`
    bool keepUnpaired = true; ///< false where several unpaired values could meet in one column
    uint64_t salt = 0;        ///< differs between inputs and seeds
    size_t contractedAxes = 1;
  };
  FirstPattern(const Tensor &tensor, const Options &options);

  int64_t rowWidth() const override { return depth_; }
  void row(uint32_t iteration, int64_t index, llvm::MutableArrayRef<int8_t> out) const override;
  void whole(uint32_t iteration, Sink sink) const override;
  void part(uint32_t iteration, int64_t rank, Sink sink) const override;

private:
  void fill(uint32_t iteration, int64_t block, int64_t row,
            llvm::MutableArrayRef<int8_t> out) const;
  void fillPairs(uint64_t random, bool backwards, int64_t markAt,
                 llvm::MutableArrayRef<int8_t> out) const;

  int64_t depth_;
  Placement rows_; ///< of rows; one block if the sharded axis is contracted
  int64_t shards_; ///< of the depth: 1, or one for each rank if the sharded axis is contracted
  Options options_;
  std::vector<uint32_t> groupOf_; ///< for each k: only elements of one group may be partners
  uint32_t groups_ = 0;
};

/// See the top of this file.
class SecondPattern final : public InputPattern {
public:
  /// `single`: exactly one 1 in every column.
  SecondPattern(const Tensor &tensor, const Gemm &consumer, bool single, uint64_t salt);

  /// P, or 0 if every column reads one element only.
  int64_t modulus() const;
  bool isTransposed() const { return transposed_; }
  void whole(uint32_t iteration, Sink sink) const override;

private:
  using EntrySink = llvm::function_ref<void(int64_t global, int8_t value)>;
  void column(uint32_t iteration, int64_t n, EntrySink sink) const;

  int64_t depth_, columns_;
  bool transposed_;
  bool single_;
  uint64_t salt_;
  Placement columnPlacement_; ///< of columns
};

/// Values in [-bound, bound] that vary with column and iteration.
class BiasPattern final : public InputPattern {
public:
  /// `mayBeZero`: false where a bias that is added twice or not at all has to be seen.
  BiasPattern(const Tensor &tensor, int64_t bound, bool mayBeZero, uint64_t salt);
  void whole(uint32_t iteration, Sink sink) const override;

private:
  int8_t value(uint32_t iteration, int64_t n) const;

  int64_t bound_;
  bool mayBeZero_;
  uint64_t salt_;
};

/// One pattern for each input. An input in several roles is a first operand before a second, and a
/// second before a bias.
std::vector<std::unique_ptr<InputPattern>> makePatterns(const Graph &graph, uint64_t seed);

} // namespace braid::reference
