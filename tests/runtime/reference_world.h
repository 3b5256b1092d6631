//===- tests/runtime/reference_world.h - an independent evaluation of fusions -----------------===//
//
// Evaluates a fusion with one loop per index, on the reference's inputs as decoded by this code.
// Tests damage the inputs or the exchanged data, and query which ranks reject the result.
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

// -- Encodings of the element types, implemented from their definitions. --

double decodeHalf(DType dtype, uint16_t bits);
double get(DType dtype, const std::vector<char> &data, int64_t index);
/// `value` must be representable in the type.
void put(DType dtype, std::vector<char> &data, int64_t index, double value);

/// The elements of a tensor in global row-major order.
using Values = std::vector<double>;

int64_t count(llvm::ArrayRef<int64_t> shape);
void add(Values &sum, const Values &terms, double factor = 1);

/// Returns the text of a fusion from tests/runtime/inputs/reference.braid.
std::string fusionNamed(const std::string &name);

/// A fusion, its reference, and the inputs of all ranks in one iteration.
class World {
public:
  explicit World(const std::string &text, uint64_t seed = 1);

  Fusion &fusion() { return *fusion_; }
  const Reference &reference() const { return *reference_; }
  int64_t ranks() const { return fusion_->ranks(); }
  std::vector<int64_t> allRanks() const;
  uint32_t iteration() const { return iteration_; }

  /// Loads the undamaged inputs of an iteration.
  void load(uint32_t iteration);
  Values globalOf(size_t input, uint32_t iteration) const;
  std::vector<char> bytesOf(size_t input, int64_t rank, uint32_t iteration) const;
  /// Returns the size of a tensor on one rank.
  size_t localBytes(const FusionTensor &tensor) const;
  Values &input(size_t index) { return values_[fusion_->inputs()[index]]; }

  /// Evaluates a tensor with the current inputs. Results are cached until forgetGemms().
  const Values &valuesOf(const FusionTensor &tensor);
  void forgetGemms();
  std::vector<Values> outputValues();
  /// Replaces a rank's block of an input, or its part of a replicated input.
  void damageBlock(size_t input, int64_t rank, const Values &wrong);
  /// Returns a rank's part of an output.
  std::vector<char> outputOf(size_t index, int64_t rank);
  /// Returns the partial result of a GEMM, without bias, for one device's part of the depth.
  Values partial(const FusionTensor &tensor, int64_t shard);
  /// Returns the number of parts into which the devices split a GEMM's depth.
  int64_t shardsOf(const FusionTensor &tensor) const;
  /// Returns the depth: the product of the first operand's contracted extents.
  int64_t depthOf(const FusionTensor &tensor) const;

  /// Returns the ranks that reject the outputs computed from the current inputs.
  std::vector<int64_t> objectingRanks();
  /// Returns the ranks that reject their part of `values` as output 0.
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
