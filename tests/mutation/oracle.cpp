//===- tests/mutation/oracle.cpp - a case's inputs and expected outputs -----------------------===//

#include "tests/mutation/oracle.h"

#include "runtime/reference/reference.h"
#include "runtime/reference/reference_codec.h"
#include "tests/support/pointwise_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

namespace braid::test {
namespace {

class ByReference final : public Oracle {
public:
  explicit ByReference(const Fusion &fusion) : reference_(fusion, 1) {}
  void fillInput(size_t index, int64_t rank, uint32_t iteration, void *data) const override {
    reference_.fillInput(index, rank, iteration, data);
  }
  Status compare(size_t index, int64_t rank, uint32_t iteration, const void *data) const override {
    return reference_.compare(index, rank, iteration, data);
  }

private:
  Reference reference_;
};

using Values = std::vector<double>;

/// Caches a value for each tensor, rank and iteration, because thousands of trials need the same
/// values. Thread-safe.
template <class Value> class Remembered {
public:
  template <class Make>
  const Value &of(size_t index, int64_t rank, uint32_t iteration, Make make) const {
    std::lock_guard lock(mutex_);
    const auto [found, isNew] = values_.try_emplace({index, rank, iteration});
    if (isNew)
      found->second = make();
    return found->second;
  }

private:
  mutable std::mutex mutex_;
  mutable std::map<std::tuple<size_t, int64_t, uint32_t>, Value> values_;
};

class BySmallValues final : public Oracle {
public:
  explicit BySmallValues(const Fusion &fusion)
      : fusion_(fusion), inputs_(fusion.inputs()), outputs_(fusion.outputs()) {}

  void fillInput(size_t index, int64_t rank, uint32_t iteration, void *data) const override {
    const std::vector<char> &bytes =
        encoded_.of(index, rank, iteration, [&] { return encodedInput(index, rank, iteration); });
    std::memcpy(data, bytes.data(), bytes.size());
  }

  Status compare(size_t index, int64_t rank, uint32_t iteration, const void *data) const override {
    const FusionTensor &tensor = *outputs_[index];
    const Values &expected = expected_.of(index, rank, iteration, [&] {
      return localPart(tensor, valuesOf(tensor, iteration), rank);
    });
    Values got(expected.size());
    reference::load(tensor.type.dtype, data, 0, got);
    for (size_t i = 0; i < got.size(); ++i) {
      const auto differs = [&](const char *what, StatusCode code) {
        return Status(code,
                      fmt::format("rank {}, iteration {}: element {} of %{} is {}, {} {}", rank,
                                  iteration, i, tensor.name, got[i], what, expected[i]));
      };
      if (!reference::encodeExactly(tensor.type.dtype, expected[i]))
        return differs("but its type does not hold", StatusCode::Unsupported);
      if (!(std::fabs(got[i] - expected[i]) <=
            tolerance() * std::fabs(expected[i]))) // also catches NaN
        return differs("expected", StatusCode::WrongResult);
    }
    return Status::ok();
  }

private:
  std::vector<char> encodedInput(size_t index, int64_t rank, uint32_t iteration) const {
    const FusionTensor &tensor = *inputs_[index];
    const DType dtype = tensor.type.dtype;
    const Values values = localPart(tensor, drawn(index, iteration), rank);
    std::vector<char> bytes(values.size() * static_cast<size_t>(sizeOf(dtype)));
    for (size_t i = 0; i < values.size(); ++i)
      reference::store(dtype, *reference::encodeExactly(dtype, values[i]), bytes.data(),
                       static_cast<int64_t>(i));
    return bytes;
  }

  /// Sums of integers are exact. Functions are computed in f64 and rounded.
  double tolerance() const { return hasFunctions() ? 1e-9 : 0; }
  bool hasFunctions() const {
    return std::any_of(fusion_.nodes().begin(), fusion_.nodes().end(),
                       [](const auto &node) { return node->kind == FusionOpKind::Pointwise; });
  }

  /// Returns nonzero integers from -4 to 4. If the fusion applies functions, divides them by 4,
  /// because no two functions have equal values at these points.
  Values drawn(size_t input, uint32_t iteration) const {
    Values values(*elementCount(fusion_.globalShape(inputs_[input]->type)));
    uint64_t state = (input + 1) * 0x9e3779b97f4a7c15 + iteration * 0xbf58476d1ce4e5b9;
    for (double &value : values) {
      state = state * 0x5851f42d4c957f2d + 0x14057b7ef767814f;
      const auto magnitude = static_cast<double>(1 + (state >> 40) % 4);
      value = ((state >> 60) % 2 == 0 ? magnitude : -magnitude) * (hasFunctions() ? 0.25 : 1);
    }
    return values;
  }

  /// Evaluates the global tensor, which spans all devices.
  Values valuesOf(const FusionTensor &tensor, uint32_t iteration) const {
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i] == &tensor)
        return drawn(i, iteration);
    if (isElementwise(*tensor.definition))
      return functionOf(*tensor.definition, iteration);
    const auto &operands = tensor.definition->operands;
    const Values a = valuesOf(*operands[0], iteration), b = valuesOf(*operands[1], iteration);
    const size_t first = contractionOf(*tensor.definition).first;
    const Shape shape = fusion_.globalShape(operands[0]->type);
    const auto k =
        static_cast<size_t>(*elementCount(llvm::ArrayRef<int64_t>(shape).drop_front(first)));
    Values c = product(a, b, k, tensor.definition->transposeB);
    if (operands.size() == 3) {
      const Values bias = valuesOf(*operands[2], iteration);
      for (size_t i = 0; i < c.size(); ++i)
        c[i] += bias[i % bias.size()];
    }
    return c;
  }

  Values functionOf(const FusionNode &node, uint32_t iteration) const {
    Values x = valuesOf(*node.operands.front(), iteration);
    if (node.kind != FusionOpKind::Pointwise)
      return x;
    const Values y = valuesOf(*node.operands.back(), iteration);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = pointwiseValue(node.function, x[i], y[i]);
    return x;
  }

  /// Multiplies matrices. The contracted axes (one or two) are contiguous in memory.
  static Values product(const Values &a, const Values &b, size_t k, bool isTransposed) {
    const size_t m = a.size() / k, n = b.size() / k;
    Values c(m * n);
    for (size_t i = 0; i < m; ++i)
      for (size_t j = 0; j < n; ++j)
        for (size_t l = 0; l < k; ++l)
          c[i * n + j] += a[i * k + l] * b[isTransposed ? j * k + l : l * n + j];
    return c;
  }

  Values localPart(const FusionTensor &tensor, const Values &global, int64_t rank) const {
    const std::optional<size_t> axis = tensor.type.find(AxisKind::DIDx);
    if (!axis)
      return global;
    const Shape shape = fusion_.globalShape(tensor.type);
    const int64_t inner = *elementCount(llvm::ArrayRef<int64_t>(shape).drop_front(*axis + 1));
    Values local;
    for (size_t i = 0; i < global.size(); ++i)
      if (static_cast<int64_t>(i) / inner % shape[*axis] == rank)
        local.push_back(global[i]);
    return local;
  }

  const Fusion &fusion_;
  const std::vector<const FusionTensor *> inputs_, outputs_;
  Remembered<std::vector<char>> encoded_; ///< inputs
  Remembered<Values> expected_;           ///< outputs
};

} // namespace

std::unique_ptr<Oracle> referenceOracle(const Fusion &fusion) {
  return std::make_unique<ByReference>(fusion);
}

std::unique_ptr<Oracle> smallOracle(const Fusion &fusion) {
  return std::make_unique<BySmallValues>(fusion);
}

} // namespace braid::test
