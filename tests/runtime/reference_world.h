//===- tests/runtime/reference_world.h - a second opinion on what a fusion computes -----------===//
//
// A fusion, evaluated on the reference's inputs as they are decoded here, with one loop per index.
// Tests damage the inputs, or what ranks pass to each other, and ask who objects to the result.
//
//===----------------------------------------------------------------------------------===//
#pragma once

#include "ir/module.h"
#include "runtime/reference/reference.h"
#include "tests/support/elements.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace braid::test {

// -- The element types once more, by their definition. --

double decodeHalf(DType dtype, uint16_t bits);
double get(DType dtype, const std::vector<char> &data, int64_t index);
/// `value` is one that the type holds.
void put(DType dtype, std::vector<char> &data, int64_t index, double value);

/// A tensor's elements in global row-major order.
using Values = std::vector<double>;

int64_t count(llvm::ArrayRef<int64_t> shape);
void add(Values &sum, const Values &terms, double factor = 1);

/// The text of a fusion of tests/runtime/inputs/reference.braid.
std::string fusionNamed(const std::string &name);

/// A fusion, its reference, and all ranks' inputs of one iteration.
class World {
public:
  explicit World(const std::string &text, uint64_t seed = 1);

  Fusion &fusion() { return *fusion_; }
  const Reference &reference() const { return *reference_; }
  int64_t ranks() const { return fusion_->ranks(); }
  std::vector<int64_t> allRanks() const;
  uint32_t iteration() const { return iteration_; }

  /// Takes the inputs of that iteration as they should be.
  void load(uint32_t iteration);
  Values globalOf(size_t input, uint32_t iteration) const;
  std::vector<char> bytesOf(size_t input, int64_t rank, uint32_t iteration) const;
  /// Bytes of a tensor on one rank.
  size_t localBytes(const FusionTensor &tensor) const;
  Values &input(size_t index) { return values_[fusion_->inputs()[index]]; }

  /// The results of a run with the present inputs. Remembered until forgetGemms().
  const Values &valuesOf(const FusionTensor &tensor);
  void forgetGemms();
  std::vector<Values> outputValues();
  /// Replaces what a rank holds of an input, or a rank's share of a whole one.
  void damageBlock(size_t input, int64_t rank, const Values &wrong);
  /// `rank`'s part of an output.
  std::vector<char> outputOf(size_t index, int64_t rank);
  /// The addend of one device's range of the depth to a GEMM's result, the bias left out.
  Values partial(const FusionTensor &tensor, int64_t shard);
  /// Into how many ranges the devices cut a GEMM's depth.
  int64_t shardsOf(const FusionTensor &tensor) const;
  /// The depth: the contracted extents of the first operand, multiplied.
  int64_t depthOf(const FusionTensor &tensor) const;

  /// The ranks whose outputs, computed from the present inputs, do not pass.
  std::vector<int64_t> objectingRanks();
  /// The ranks that refuse their part of `values` as output 0.
  std::vector<int64_t> objectingRanks(const Values &values);

private:
  bool passes(int64_t rank);
  Values compute(const FusionTensor &tensor);

  Diagnostics diags_;
  Module module_;
  Fusion *fusion_ = nullptr;
  std::unique_ptr<Reference> reference_;
  uint32_t iteration_ = 0;
  std::map<const FusionTensor *, Values> values_;
};

} // namespace braid::test
