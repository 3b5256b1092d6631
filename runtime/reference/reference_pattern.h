//===- runtime/reference/reference_pattern.h - the values of one input ------------------------===//
#pragma once

#include "runtime/reference/reference_graph.h"

namespace braid::reference {

/// The values of one input for every iteration, small integers times a power of two. There are two
/// kinds:
///  * Marks: every line (Lines) is cut into equal segments, and some or all segments hold one mark,
///    low ... high or the negative of that. Marks of neighbouring lines, segments and iterations and
///    of other blocks differ, where the range allows it; a mark is never twice another one.
///  * Weights: every element is nonzero, with a random sign. Magnitudes along a line alternate
///    between 1 and 2, and an odd line ends with 4; so neighbours differ, the ends included, and a
///    square matrix is not its own transpose. `high` of 1 makes all magnitudes 1.
struct Pattern {
  Lines lines;
  Placement blocks; ///< of the lines
  bool isWeights = false;
  int64_t segments = 1; ///< of a line; divides the depth
  int64_t entries = 1;  ///< segments that hold a mark; others in every line and iteration
  int64_t low = 1, high = 1;
  int exponent = 0; ///< of the power of two
  uint64_t salt = 0;

  using Sink = llvm::function_ref<void(int64_t k, int64_t value)>;

  /// The greatest magnitude, and a bound of the sum of a line's magnitudes.
  double most() const;
  double mostOfLine() const;
  /// The nonzero elements of a line, without the power of two.
  void line(uint32_t iteration, int64_t line, Sink sink) const;
  /// Writes a rank's part of the input.
  void fill(uint32_t iteration, int64_t rank, DType dtype, void *data) const;
  /// Of weights: adds `factor` times element k of every line to the line's sum.
  void addWeights(uint32_t iteration, int64_t k, double factor,
                  llvm::MutableArrayRef<double> sums) const;

private:
  class Encoder;
  struct Part;
  int64_t weightMagnitude(uint32_t iteration, int64_t k) const;
  uint64_t weightSigns(uint32_t iteration, int64_t k, int64_t line) const;
  void fillMarks(uint32_t iteration, const Part &part, const Encoder &encoder) const;
  void fillWeights(uint32_t iteration, const Part &part, const Encoder &encoder) const;
};

} // namespace braid::reference
