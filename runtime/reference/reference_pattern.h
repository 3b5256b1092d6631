//===- runtime/reference/reference_pattern.h - the values of one input ------------------------===//
#pragma once

#include "runtime/reference/reference_graph.h"

namespace braid::reference {

/// The values of one input for every iteration: small integers times a power of two.
struct Pattern {
  /// Weights are nonzero everywhere. Their magnitudes along a line (Lines) alternate between 1 and
  /// 2, and the last one in an odd-length line with one segment is 4, so neighbors differ, even
  /// across lines, and a square matrix is not its own transpose. If `high` is 1, all are 1.
  ///
  /// All other kinds divide lines into equal segments. All or some segments have one nonzero
  /// element, the mark, with a magnitude from `low` to `high`. Marks of neighboring lines,
  /// segments, iterations and blocks differ if the range permits, and no mark is twice another
  /// mark. A selection's marks are 1; a dense tensor has one segment per element. All signs are
  /// random.
  enum class Kind { Marks, Selection, Dense, Weights };

  Kind kind = Kind::Dense;
  Lines lines;
  int64_t segments = 1; ///< segments per line; divides the depth
  int64_t entries = 1;  ///< nonzero segments per line; their positions vary by line and iteration
  int64_t low = 1, high = 1;
  int exponent = 0; ///< exponent of the power of two
  uint64_t salt = 0;

  using Sink = llvm::function_ref<void(int64_t k, double value)>;

  /// Returns the maximum magnitude, excluding the power of two.
  double most() const;
  /// Returns an upper bound on the number of lines with a nonzero element at the same position.
  int64_t mostAcross() const;
  /// Calls `sink` for the nonzero elements of a line.
  void line(uint32_t iteration, int64_t line, Sink sink) const;
  /// Writes a rank's part of the input.
  void fill(uint32_t iteration, int64_t rank, DType dtype, void *data) const;
  /// For weights only: adds `factor` times element k of every line to the line's sum.
  void addWeights(uint32_t iteration, int64_t k, double factor,
                  llvm::MutableArrayRef<double> sums) const;

private:
  double weight(uint32_t iteration, int64_t k, int64_t line) const;
};

} // namespace braid::reference
