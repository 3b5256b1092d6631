//===- runtime/reference/reference_pattern.cpp - inputs in which no error can hide ------------===//
#include "runtime/reference/reference_pattern.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace braid::reference {

namespace {

/// Marks are kMark, ..., 2 * kMark - 1: twice the least exceeds the greatest, so that a mark times
/// a weight of 1 or 2 tells both. kMark is prime.
constexpr uint64_t kMark = 61;
/// Steps of the mark, modulo kMark; a row counts 1. Small combinations of them do not vanish.
constexpr uint64_t kIterationStep = 5;
constexpr uint64_t kBlockStep = 9;
/// What all biases of a chain may add to 2 * 121.
constexpr int64_t kBiasBudget = 13;

/// No element of a group waits for a partner.
constexpr uint32_t kNobody = ~0u;

constexpr int8_t kWeights[3] = {1, -1, 2};
constexpr int8_t kSmall[6] = {1, -1, 2, -2, 3, -3};

uint64_t mix(uint64_t state) {
  state += 0x9e3779b97f4a7c15;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
  state = (state ^ (state >> 27)) * 0x94d049bb133111eb;
  return state ^ (state >> 31);
}

/// `x`, displaced a little more after every `period`: entries `period` apart differ, too.
uint64_t spread(int64_t x, uint64_t period) {
  const uint64_t index = static_cast<uint64_t>(x);
  return index + index / period * (period / 2 + 1);
}

/// A colouring of 0 ... depth-1 with three colours, different for neighbours and for the two ends.
/// colour(k) == colour(k - 1) + 1 modulo 3 but for the last k where depth is 3q + 1.
uint32_t colour(int64_t k, int64_t depth) {
  if (depth % 3 == 1 && depth > 1 && k == depth - 1)
    return 1;
  return static_cast<uint32_t>(k % 3);
}

} // namespace

void InputPattern::row(uint32_t iteration, [[maybe_unused]] int64_t index,
                       llvm::MutableArrayRef<int8_t> out) const {
  assert(index == 0 && "the tensor is one row");
  std::fill(out.begin(), out.end(), int8_t(0));
  whole(iteration, [&](int64_t begin, llvm::ArrayRef<int8_t> values) {
    std::copy(values.begin(), values.end(), out.begin() + begin);
  });
}

void InputPattern::part(uint32_t iteration, int64_t rank, Sink sink) const {
  whole(iteration, [&](int64_t begin, llvm::ArrayRef<int8_t> values) {
    assert(values.size() == 1 && "contiguous here need not be contiguous on the rank");
    if (placement_.isOn(rank, begin))
      sink(placement_.localOf(begin), values);
  });
}

FirstPattern::FirstPattern(const Tensor &tensor, const Options &options)
    : InputPattern(tensor.placement), depth_(tensor.global.back()), options_(options) {
  splitsDepth_ = tensor.deviceAxis && *tensor.deviceAxis + 1 == tensor.global.size();
  const auto rowShape = llvm::ArrayRef<int64_t>(tensor.global).drop_back();
  rows_ = Placement::of(rowShape, splitsDepth_ ? std::nullopt : tensor.deviceAxis);
  // Groups are numbered without gaps, because the table of them is cleared for every row.
  std::vector<uint32_t> numbers(options.pairing * 3, kNobody);
  for (int64_t k = 0; k < depth_; ++k) {
    uint32_t &number = numbers[k % options.pairing * 3 + colour(k, depth_)];
    if (number == kNobody)
      number = groups_++;
    groupOf_.push_back(number);
  }
}

void FirstPattern::row(uint32_t iteration, int64_t index, llvm::MutableArrayRef<int8_t> out) const {
  fill(iteration, rows_.deviceOf(index), rows_.localOf(index), out);
}

void FirstPattern::fill(uint32_t iteration, int64_t block, int64_t row,
                        llvm::MutableArrayRef<int8_t> out) const {
  const uint64_t residue = kIterationStep * iteration + kBlockStep * spread(block, kMark) +
                           spread(row, kMark) + options_.salt % kMark;
  // Neighbouring rows have their marks at neighbouring places, so that depth() rows reach every k.
  const uint64_t place = static_cast<uint64_t>(row) + 3 * uint64_t(iteration) +
                         5 * static_cast<uint64_t>(block) + options_.salt % kMark;
  const int64_t markAt = static_cast<int64_t>(place % static_cast<uint64_t>(depth_));
  const uint64_t input = mix(mix(options_.salt) + iteration);
  const uint64_t random = mix(mix(input + uint64_t(block)) + uint64_t(row));
  fillPairs(random, row % 2 != 0, markAt, out);
  out[markAt] = static_cast<int8_t>(kMark + residue % kMark);
}

/// Pairs are consecutive in their group, so that a sum over a range of k is small, too. Going
/// backwards in every other row moves the places without a partner from one end to the other.
void FirstPattern::fillPairs(uint64_t random, bool backwards, int64_t markAt,
                             llvm::MutableArrayRef<int8_t> out) const {
  llvm::SmallVector<uint32_t, 256> waiting(groups_, kNobody);
  for (int64_t step = 0; step < depth_; ++step) {
    const int64_t k = backwards ? depth_ - 1 - step : step;
    if (k == markAt)
      continue;
    uint32_t &partner = waiting[groupOf_[k]];
    if (partner != kNobody) {
      out[k] = static_cast<int8_t>(-out[partner]);
      partner = kNobody;
      continue;
    }
    random = random * 0x5851f42d4c957f2d + 0x14057b7ef767814f;
    out[k] = kSmall[((random >> 33) * 6) >> 31];
    partner = static_cast<uint32_t>(k);
  }
  const int64_t markClass = markAt % options_.classes;
  for (uint32_t k : waiting)
    if (k != kNobody && (!options_.keepUnpaired || k % options_.classes == markClass))
      out[k] = 0;
}

void FirstPattern::whole(uint32_t iteration, Sink sink) const {
  std::vector<int8_t> values(depth_);
  for (int64_t r = 0; r < rows_.globalElements(); ++r) {
    row(iteration, r, values);
    sink(r * depth_, values);
  }
}

void FirstPattern::part(uint32_t iteration, int64_t rank, Sink sink) const {
  std::vector<int8_t> values(depth_);
  const llvm::ArrayRef<int8_t> all = values;
  const int64_t block = rows_.devices == 1 ? 0 : rank;
  for (int64_t r = 0; r < rows_.localElements(); ++r) {
    fill(iteration, block, r, values);
    if (splitsDepth_)
      sink(r, all.slice(rank, 1));
    else
      sink(r * depth_, all);
  }
}

SecondPattern::SecondPattern(const Tensor &tensor, const Gemm &consumer, bool single, uint64_t salt)
    : InputPattern(tensor.placement), depth_(consumer.depth), columns_(consumer.columns),
      transposed_(consumer.transposed), single_(single), salt_(salt),
      columnPlacement_(consumer.columnPlacement) {}

int64_t SecondPattern::modulus() const {
  const int64_t local = columnPlacement_.localElements();
  return single_ || local >= depth_ ? 0 : local;
}

void SecondPattern::column(uint32_t iteration, int64_t n, EntrySink sink) const {
  const uint64_t step = modulus() ? modulus() : depth_;
  const uint64_t local = static_cast<uint64_t>(columnPlacement_.localOf(n));
  const uint64_t block = static_cast<uint64_t>(columnPlacement_.deviceOf(n));
  const uint64_t turn = local / step + block + iteration + salt_ % 3;
  for (uint64_t k = (local + iteration + salt_ % kMark) % step; k < uint64_t(depth_); k += step) {
    const int64_t at = static_cast<int64_t>(k);
    const int64_t global = transposed_ ? n * depth_ + at : at * columns_ + n;
    sink(global, single_ ? int8_t(1) : kWeights[(colour(at, depth_) + turn) % 3]);
  }
}

void SecondPattern::whole(uint32_t iteration, Sink sink) const {
  for (int64_t n = 0; n < columns_; ++n)
    column(iteration, n, [&](int64_t global, int8_t value) { sink(global, value); });
}

BiasPattern::BiasPattern(const Tensor &tensor, int64_t bound, uint64_t salt)
    : InputPattern(tensor.placement), bound_(bound), salt_(salt) {}

int8_t BiasPattern::value(uint32_t iteration, int64_t n) const {
  const uint64_t range = static_cast<uint64_t>(2 * bound_ + 1); // odd, so that 4 is invertible
  const uint64_t residue = (spread(n, range) + 4 * uint64_t(iteration) + salt_ % kMark) % range;
  return static_cast<int8_t>(static_cast<int64_t>(residue) - bound_);
}

void BiasPattern::whole(uint32_t iteration, Sink sink) const {
  for (int64_t n = 0; n < placement_.globalElements(); ++n)
    sink(n, value(iteration, n));
}

namespace {

/// Decides what each input is for, second operands before the first ones that depend on them.
class PatternMaker {
public:
  PatternMaker(const Graph &graph, uint64_t seed) : graph_(graph), seed_(seed) {}

  std::vector<std::unique_ptr<InputPattern>> make() {
    patterns_.resize(graph_.inputs.size());
    seconds_.resize(graph_.inputs.size());
    for (size_t i = 0; i < patterns_.size(); ++i)
      if (!isFirst(i))
        makeSecondOrBias(i);
    for (size_t i = 0; i < patterns_.size(); ++i)
      if (!patterns_[i])
        patterns_[i] = std::make_unique<FirstPattern>(tensor(i), firstOptions(i));
    return std::move(patterns_);
  }

private:
  const Tensor &tensor(size_t input) const { return graph_.tensors[graph_.inputs[input]]; }
  /// Salts of different inputs differ modulo kMark, so that one input is not mistaken for another.
  uint64_t salt(size_t input) const { return mix(seed_) / 2 + 17 * input; }

  bool isFirst(size_t input) const {
    return llvm::any_of(graph_.gemms,
                        [&](const Gemm &gemm) { return gemm.first == graph_.inputs[input]; });
  }

  void makeSecondOrBias(size_t input) {
    const Gemm *consumer = nullptr;
    bool single = false;
    for (const Gemm &gemm : graph_.gemms) {
      if (gemm.second != graph_.inputs[input])
        continue;
      consumer = consumer ? consumer : &gemm;
      single |= graph_.tensors[gemm.first].gemm.has_value();
    }
    if (!consumer) {
      patterns_[input] = std::make_unique<BiasPattern>(tensor(input), biasBound(), salt(input));
      return;
    }
    auto second = std::make_unique<SecondPattern>(tensor(input), *consumer, single, salt(input));
    seconds_[input] = second.get();
    patterns_[input] = std::move(second);
  }

  int64_t biasBound() const {
    const int64_t biases =
        llvm::count_if(graph_.gemms, [](const Gemm &gemm) { return gemm.bias.has_value(); });
    return std::max<int64_t>(1, kBiasBudget / std::max<int64_t>(1, biases));
  }

  FirstPattern::Options firstOptions(size_t input) const {
    const int64_t depth = tensor(input).global.back();
    int64_t common = 0, multiple = 1;
    for (const Gemm &gemm : graph_.gemms) {
      if (gemm.first != graph_.inputs[input])
        continue;
      const int64_t modulus = modulusOf(gemm);
      if (modulus == 0)
        continue;
      common = std::gcd(common, modulus);
      multiple = std::min(depth, std::lcm(multiple, modulus));
    }
    if (common == 0)
      return {depth, depth, true, salt(input)};
    return {common, multiple, common == multiple, salt(input)};
  }

  /// P of the second operand, or 0 if it does not bind the first operand.
  int64_t modulusOf(const Gemm &gemm) const {
    const std::optional<size_t> input = graph_.tensors[gemm.second].input;
    const SecondPattern *second = input ? seconds_[*input] : nullptr;
    if (!second || second->isTransposed() != gemm.transposed)
      return 0;
    return second->modulus();
  }

  const Graph &graph_;
  uint64_t seed_;
  std::vector<std::unique_ptr<InputPattern>> patterns_;
  std::vector<const SecondPattern *> seconds_; ///< for each input in that role
};

} // namespace

std::vector<std::unique_ptr<InputPattern>> makePatterns(const Graph &graph, uint64_t seed) {
  return PatternMaker(graph, seed).make();
}

} // namespace braid::reference
