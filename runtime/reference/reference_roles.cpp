//===- runtime/reference/reference_roles.cpp - what each input of a fusion is for -------------===//
#include "runtime/reference/reference_draw.h"
#include "runtime/reference/reference_function_pattern.h"
#include "runtime/reference/reference_sum_roles.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

namespace braid::reference {

namespace {

/// Decides what each input is for, second operands before the first ones that depend on them.
class PatternMaker {
public:
  PatternMaker(const Graph &graph, uint64_t seed) : graph_(graph), sums_(graph), seed_(seed) {}

  std::vector<std::unique_ptr<InputPattern>> make() {
    patterns_.resize(graph_.inputs.size());
    seconds_.resize(graph_.inputs.size());
    for (size_t i = 0; i < patterns_.size(); ++i)
      if (!isFirst(i))
        makeSecondOrBias(i);
    for (size_t i = 0; i < patterns_.size(); ++i)
      if (!patterns_[i])
        makeFirst(i);
    return std::move(patterns_);
  }

private:
  const Tensor &tensor(size_t input) const { return graph_.tensors[graph_.inputs[input]]; }
  /// Salts of different inputs differ modulo kMark, so that one input is not mistaken for another.
  uint64_t salt(size_t input) const { return splitMix(seed_) / 2 + 17 * input; }

  const Gemm *firstConsumer(size_t input) const {
    const auto found = llvm::find_if(
        graph_.gemms, [&](const Gemm &gemm) { return gemm.first == graph_.inputs[input]; });
    return found == graph_.gemms.end() ? nullptr : &*found;
  }
  bool isFirst(size_t input) const { return firstConsumer(input); }

  void makeSecondOrBias(size_t input) {
    const Gemm *consumer = nullptr;
    bool single = false;
    for (const Gemm &gemm : graph_.gemms) {
      if (gemm.second != graph_.inputs[input])
        continue;
      consumer = consumer ? consumer : &gemm;
      single |= graph_.tensors[gemm.first].gemm.has_value();
    }
    if (!consumer)
      return makeBias(input);
    if (makeSummedSecond(input, *consumer))
      return;
    auto second = std::make_unique<SecondPattern>(tensor(input), *consumer, single, salt(input));
    seconds_[input] = second.get();
    patterns_[input] = std::move(second);
  }

  bool makeSummedSecond(size_t input, const Gemm &consumer) {
    if (const SumLayout *layout = sums_.layoutOf(consumer)) {
      patterns_[input] = std::make_unique<SummedSecondPattern>(
          tensor(input), consumer, *layout, sums_.columnsOf(consumer), salt(input));
      return true;
    }
    const Gemm *producer = sums_.producerOf(consumer);
    if (!producer)
      return false;
    const size_t producerSecond = *graph_.tensors[producer->second].input;
    patterns_[input] = std::make_unique<SummedChainPattern>(tensor(input), consumer,
                                                            salt(producerSecond), salt(input));
    return true;
  }

  void makeBias(size_t input) {
    const int64_t bound =
        sums_.isBiasOfProducer(graph_.inputs[input]) ? kProducerBias : biasBound();
    patterns_[input] =
        std::make_unique<BiasPattern>(tensor(input), bound, !sums_.hasAny(), salt(input));
  }

  int64_t biasBound() const {
    const int64_t biases =
        llvm::count_if(graph_.gemms, [](const Gemm &gemm) { return gemm.bias.has_value(); });
    return std::max<int64_t>(1, kBiasBudget / std::max<int64_t>(1, biases));
  }

  void makeFirst(size_t input) {
    const Gemm &consumer = *firstConsumer(input);
    if (const SumLayout *layout = sums_.layoutOf(consumer))
      patterns_[input] = std::make_unique<SummedFirstPattern>(
          tensor(input), consumer, *layout, sums_.contributions(*layout), salt(input));
    else
      patterns_[input] = std::make_unique<FirstPattern>(tensor(input), firstOptions(input));
  }

  FirstPattern::Options firstOptions(size_t input) const {
    const Gemm &consumer = *firstConsumer(input);
    const int64_t depth = consumer.depth;
    const size_t axes = consumer.contractedAxes;
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
      return {depth, depth, true, salt(input), axes};
    return {common, multiple, common == multiple, salt(input), axes};
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
  SumRoles sums_;
  uint64_t seed_;
  std::vector<std::unique_ptr<InputPattern>> patterns_;
  std::vector<const SecondPattern *> seconds_; ///< for each input in that role
};

} // namespace

std::vector<std::unique_ptr<InputPattern>> makePatterns(const Graph &graph, uint64_t seed) {
  const bool hasFunctions =
      llvm::any_of(graph.functions, [](const Function &each) { return each.function.has_value(); });
  return hasFunctions ? makeFunctionPatterns(graph, seed) : PatternMaker(graph, seed).make();
}

} // namespace braid::reference
