//===- runtime/reference/reference_pattern.h - inputs in which no error can hide --------------===//
//
// bf16 holds integers exactly up to 256 only, and a sum over thousands of elements must stay below
// that, in any order of adding, while every element counts. So the inputs know each other:
//
// Second operands (B, w). The columns that one rank holds are distributed over the residue classes
// of k modulo P = min(local columns, depth): a column is a weighted sum over one class, each k
// belongs to a column of every rank, and the weights are 1, -1 and 2, never equal for k and k + 1
// (cyclically). So one element of a first operand off by one changes the result on every rank by
// its weight.
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
//===-------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/reference/reference_graph.h"

namespace braid::reference {

/// The contents of one input for every iteration. Immutable, so safe to share.
class InputPattern {
public:
  /// Receives elements [begin, begin + values.size()), counted in the tensor asked for.
  using Sink = llvm::function_ref<void(int64_t begin, llvm::ArrayRef<int8_t> values)>;

  explicit InputPattern(const Placement &placement) : placement_(placement) {}
  virtual ~InputPattern() = default;

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
};

/// See the top of this file.
class FirstPattern final : public InputPattern {
public:
  struct Options {
    int64_t classes = 1;      ///< G: modulo this, the mark is alone in its class
    int64_t pairing = 1;      ///< partners are equal modulo this, a multiple of `classes`
    bool keepUnpaired = true; ///< false where several unpaired values could meet in one column
    uint64_t salt = 0;        ///< differs between inputs and seeds
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
  Placement rows_;   ///< of rows; one block if the sharded axis is the last
  bool splitsDepth_; ///< the sharded axis is the last
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
  BiasPattern(const Tensor &tensor, int64_t bound, uint64_t salt);
  void whole(uint32_t iteration, Sink sink) const override;

private:
  int8_t value(uint32_t iteration, int64_t n) const;

  int64_t bound_;
  uint64_t salt_;
};

/// One pattern for each input. An input in several roles is a first operand before a second, and a
/// second before a bias.
std::vector<std::unique_ptr<InputPattern>> makePatterns(const Graph &graph, uint64_t seed);

} // namespace braid::reference
