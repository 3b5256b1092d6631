//===- runtime/reference/reference_sum_pattern.h - inputs of GEMMs summed over devices --------===//
//
// reference_pattern.h says what these patterns are for, and why no error can hide in them.
//
//===-----------------------------------------------------------------------------------===//
#pragma once

#include "runtime/reference/reference_contributions.h"
#include "runtime/reference/reference_pattern.h"

namespace braid::reference {

/// Which elements of a row of a first operand make which term of which sum. Every shard of the
/// depth is cut into classes modulo classes(). The elements of a class, weighted, add up to one
/// term; a sum is a vector of as many terms as there are places. A column of a second operand reads
/// one class of every shard.
struct SumLayout {
  int64_t shards;         ///< of the depth; 1 where ranks differ by their columns
  int64_t shardDepth;     ///< elements in one
  int64_t vectors;        ///< sums in one row
  int64_t placesPerShard; ///< terms of one sum that one shard holds

  /// A GEMM that is summed itself: each shard has one term of every sum.
  static SumLayout ofSum(const Gemm &gemm);
  /// A GEMM whose columns are the depth of one that is summed: the columns of different ranks
  /// read different terms.
  static SumLayout ofProducer(const Gemm &producer, int64_t ranks);

  int64_t depth() const { return shards * shardDepth; }
  int64_t places() const { return shards * placesPerShard; }
  int64_t classes() const { return vectors * placesPerShard; }

  /// The class that column `local` of block `block` reads, counted from firstOf.
  int64_t classOfColumn(int64_t block, int64_t local) const;
  /// The first element of a class in a shard. Classes move with shard and iteration.
  int64_t firstOf(int64_t classIndex, int64_t shard, uint32_t iteration) const;
  /// 1 or -1: by what the first element of a shard is weighted, but for the sign of the column.
  /// Every other element has the other sign.
  static int signOf(int64_t shard);
};

/// 1 or -1 for a column of a second operand.
int8_t columnSign(uint64_t salt, uint32_t iteration, int64_t column);

/// A first operand. No element is zero, but where there are more than 16 ranks.
class SummedFirstPattern final : public InputPattern {
public:
  SummedFirstPattern(const Tensor &tensor, const Gemm &consumer, const SumLayout &layout,
                     const Contributions &contributions, uint64_t salt);

  int64_t rowWidth() const override { return layout_.depth(); }
  void row(uint32_t iteration, int64_t index, llvm::MutableArrayRef<int8_t> out) const override;
  void whole(uint32_t iteration, Sink sink) const override;
  void part(uint32_t iteration, int64_t rank, Sink sink) const override;

private:
  struct Class;
  void fill(uint32_t iteration, int64_t row, int64_t firstShard,
            llvm::MutableArrayRef<int8_t> out) const;
  void fillClass(const Class &filled, int8_t term, llvm::MutableArrayRef<int8_t> out) const;

  SumLayout layout_;
  Contributions contributions_;
  uint64_t salt_;
  Placement blocks_;     ///< of rows, as results are blocked
  Placement rows_;       ///< of rows, as the tensor is distributed
  bool isSplitByShards_; ///< every rank holds one shard of all rows
};

/// A second operand: every column reads one class of every shard.
class SummedSecondPattern final : public InputPattern {
public:
  SummedSecondPattern(const Tensor &tensor, const Gemm &consumer, const SumLayout &layout,
                      const Placement &columns, uint64_t salt);
  uint64_t salt() const { return salt_; }
  void whole(uint32_t iteration, Sink sink) const override;

private:
  SumLayout layout_;
  Placement columns_;
  bool transposed_;
  uint64_t salt_;
};

/// A second operand whose first operand is a GEMM of the two above: every column reads one element
/// of every shard, and takes the sign back with which that was made.
class SummedChainPattern final : public InputPattern {
public:
  SummedChainPattern(const Tensor &tensor, const Gemm &consumer, uint64_t producerSalt,
                     uint64_t salt);
  void whole(uint32_t iteration, Sink sink) const override;

private:
  Gemm consumer_;
  uint64_t producerSalt_, salt_;
};

} // namespace braid::reference
