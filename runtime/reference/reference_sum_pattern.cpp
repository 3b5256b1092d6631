//===- runtime/reference/reference_sum_pattern.cpp - inputs of GEMMs summed over devices ------===//
#include "runtime/reference/reference_sum_pattern.h"

#include "runtime/reference/reference_draw.h"

#include <algorithm>

namespace braid::reference {

namespace {

/// The weight of element k, where the first one has `sign`: neighbours differ.
int weightOf(int sign, int64_t k) { return k % 2 == 0 ? sign : -sign; }

/// Where entry (k, n) of a second operand is in its global tensor.
int64_t entryAt(bool transposed, int64_t depth, int64_t columns, int64_t k, int64_t n) {
  return transposed ? n * depth + k : k * columns + n;
}

} // namespace

SumLayout SumLayout::ofSum(const Gemm &gemm) {
  const int64_t depth = gemm.shardDepth();
  return {gemm.shards, depth, std::min(depth, gemm.columnPlacement.localElements()), 1};
}

/// Where the depth has no place for a term of every rank, all ranks share terms.
SumLayout SumLayout::ofProducer(const Gemm &producer, int64_t ranks) {
  const int64_t depth = producer.depth;
  if (depth < ranks)
    return {1, depth, depth, 1};
  const int64_t local = producer.columns / ranks;
  return {1, depth, std::max<int64_t>(1, std::min(local, depth) / ranks), ranks};
}

/// Where a shard has one term of a sum, neighbouring columns read different sums. Where it has
/// all, neighbours and ranks read different terms.
int64_t SumLayout::classOfColumn(int64_t block, int64_t local) const {
  if (placesPerShard == 1)
    return (local + block) % vectors;
  return local / placesPerShard % vectors * placesPerShard + (local + block) % placesPerShard;
}

/// Twice the iteration, because terms turn back by one: together they do not stand still.
int64_t SumLayout::firstOf(int64_t classIndex, int64_t shard, uint32_t iteration) const {
  return (classIndex + shard + 2 * int64_t(iteration)) % classes();
}

int SumLayout::signOf(int64_t shard) { return splitMix(static_cast<uint64_t>(shard)) & 1 ? -1 : 1; }

int8_t columnSign(uint64_t salt, uint32_t iteration, int64_t column) {
  return splitMix(splitMix(salt + iteration) + static_cast<uint64_t>(column)) & 1 ? -1 : 1;
}

//===----------------------------------------------------------------------------------------===//
// First operands
//===----------------------------------------------------------------------------------------===//

/// The elements first, first + classes(), ... of a shard.
struct SummedFirstPattern::Class {
  int64_t first;
  int sign;        ///< of the shard
  uint64_t place;  ///< of the mark, counted in elements of the class and wrapped
  uint64_t random; ///< for the other elements
};

SummedFirstPattern::SummedFirstPattern(const Tensor &tensor, const Gemm &consumer,
                                       const SumLayout &layout, const Contributions &contributions,
                                       uint64_t salt)
    : InputPattern(tensor.placement), layout_(layout), contributions_(contributions), salt_(salt),
      blocks_(consumer.rowPlacement) {
  const auto rowShape = llvm::ArrayRef<int64_t>(tensor.global).drop_back(consumer.contractedAxes);
  isSplitByShards_ = tensor.deviceAxis && *tensor.deviceAxis >= rowShape.size();
  rows_ = Placement::of(rowShape, isSplitByShards_ ? std::nullopt : tensor.deviceAxis);
}

void SummedFirstPattern::row(uint32_t iteration, int64_t index,
                             llvm::MutableArrayRef<int8_t> out) const {
  fill(iteration, index, 0, out);
}

/// As many shards of a row as `out` has room for, from `firstShard` on.
void SummedFirstPattern::fill(uint32_t iteration, int64_t row, int64_t firstShard,
                              llvm::MutableArrayRef<int8_t> out) const {
  const RowKey key{iteration, blocks_.deviceOf(row), blocks_.localOf(row)};
  const uint64_t random = key.random(salt_), salt = salt_ % kMark;
  const int64_t turn = int64_t(iteration) + key.block + key.row + static_cast<int64_t>(salt);
  const int64_t shards = static_cast<int64_t>(out.size()) / layout_.shardDepth;
  std::vector<int8_t> terms(layout_.places());
  for (int64_t v = 0; v < layout_.vectors; ++v) {
    const uint64_t ofVector = splitMix(random + static_cast<uint64_t>(v));
    contributions_.draw(ofVector, key.residue() + salt + 7 * static_cast<uint64_t>(v), terms);
    for (int64_t shard = firstShard; shard < firstShard + shards; ++shard)
      for (int64_t place = 0; place < layout_.placesPerShard; ++place) {
        const int64_t column = layout_.placesPerShard == 1 ? v : place; // differs for neighbours
        const int64_t term = (shard + column + turn) % layout_.places();
        const int64_t first = layout_.firstOf(v * layout_.placesPerShard + place, shard, iteration);
        const uint64_t ofClass = ofVector + splitMix(static_cast<uint64_t>(shard + place));
        fillClass({first, SumLayout::signOf(shard), key.place() + salt, ofClass}, terms[term],
                  out.slice((shard - firstShard) * layout_.shardDepth, layout_.shardDepth));
      }
  }
}

/// All elements but the mark and, where their number is odd, its companion are pairs that cancel;
/// mark and companion make the term.
void SummedFirstPattern::fillClass(const Class &filled, int8_t term,
                                   llvm::MutableArrayRef<int8_t> out) const {
  const int64_t step = layout_.classes(), depth = layout_.shardDepth;
  const uint64_t count = static_cast<uint64_t>((depth - filled.first + step - 1) / step);
  const int64_t markAt = filled.first + static_cast<int64_t>(filled.place % count) * step;
  uint64_t random = filled.random;
  int waiting = 0; // weighted; 0: nobody waits for a partner
  int64_t waitingAt = 0;
  for (int64_t k = filled.first; k < depth; k += step) {
    if (k == markAt)
      continue;
    const int value = waiting ? -waiting : nextSmall(random);
    out[k] = static_cast<int8_t>(value * weightOf(filled.sign, k));
    waiting = waiting ? 0 : value;
    waitingAt = k;
  }
  if (waiting != 0 && waiting == term) { // the mark would be zero
    waiting = -waiting;
    out[waitingAt] = static_cast<int8_t>(-out[waitingAt]);
  }
  out[markAt] = static_cast<int8_t>((term - waiting) * weightOf(filled.sign, markAt));
}

void SummedFirstPattern::whole(uint32_t iteration, Sink sink) const {
  std::vector<int8_t> values(rowWidth());
  for (int64_t r = 0; r < rows_.globalElements(); ++r) {
    row(iteration, r, values);
    sink(r * rowWidth(), values);
  }
}

void SummedFirstPattern::part(uint32_t iteration, int64_t rank, Sink sink) const {
  std::vector<int8_t> values(isSplitByShards_ ? layout_.shardDepth : rowWidth());
  for (int64_t r = 0; r < rows_.globalElements(); ++r) {
    if (!rows_.isOn(rank, r))
      continue;
    if (isSplitByShards_)
      fill(iteration, r, rank, values);
    else
      row(iteration, r, values);
    sink(rows_.localOf(r) * static_cast<int64_t>(values.size()), values);
  }
}

//===----------------------------------------------------------------------------------------===//
// Second operands
//===----------------------------------------------------------------------------------------===//

SummedSecondPattern::SummedSecondPattern(const Tensor &tensor, const Gemm &consumer,
                                         const SumLayout &layout, const Placement &columns,
                                         uint64_t salt)
    : InputPattern(tensor.placement), layout_(layout), columns_(columns),
      transposed_(consumer.transposed), salt_(salt) {}

void SummedSecondPattern::whole(uint32_t iteration, Sink sink) const {
  const int64_t columns = columns_.globalElements(), depth = layout_.depth();
  for (int64_t n = 0; n < columns; ++n) {
    const int64_t read = layout_.classOfColumn(columns_.deviceOf(n), columns_.localOf(n));
    const int sign = columnSign(salt_, iteration, n);
    for (int64_t shard = 0; shard < layout_.shards; ++shard)
      for (int64_t k = layout_.firstOf(read, shard, iteration); k < layout_.shardDepth;
           k += layout_.classes())
        sink(entryAt(transposed_, depth, columns, shard * layout_.shardDepth + k, n),
             static_cast<int8_t>(weightOf(sign * SumLayout::signOf(shard), k)));
  }
}

SummedChainPattern::SummedChainPattern(const Tensor &tensor, const Gemm &consumer,
                                       uint64_t producerSalt, uint64_t salt)
    : InputPattern(tensor.placement), consumer_(consumer), producerSalt_(producerSalt),
      salt_(salt) {}

/// Where there are fewer columns than elements, other elements are read in every iteration; as in
/// firstOf, the terms must not stand still.
void SummedChainPattern::whole(uint32_t iteration, Sink sink) const {
  const Placement &columns = consumer_.columnPlacement;
  const int64_t depth = consumer_.shardDepth();
  const int64_t turn = columns.localElements() < depth ? 2 * int64_t(iteration) % depth : 0;
  for (int64_t n = 0; n < consumer_.columns; ++n) {
    const int64_t read = (columns.localOf(n) + columns.deviceOf(n) + depth - turn) % depth;
    const int sign = columnSign(salt_, iteration, n);
    for (int64_t shard = 0; shard < consumer_.shards; ++shard) {
      const int64_t k = shard * depth + read;
      sink(entryAt(consumer_.transposed, consumer_.depth, consumer_.columns, k, n),
           static_cast<int8_t>(sign * columnSign(producerSalt_, iteration, k)));
    }
  }
}

} // namespace braid::reference
