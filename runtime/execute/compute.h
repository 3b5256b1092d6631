//===- runtime/execute/compute.h - a device's arithmetic --------------------------------------===//
#pragma once

#include "api/status.h"
#include "runtime/execute/tag.h"

#include <chrono>

namespace braid {

/// The operands of a GEMM, as addresses. Shapes are as in PlanMatmul.
struct MatmulArgs {
  DType dtype;
  bool transposeB;
  int64_t m, n, k;
  const void *a, *b;
  const void *bias;   ///< null if none
  const void *addend; ///< null if none; never set together with `bias`; may be `c`
  void *c;
  bool overlaps; ///< as in PlanMatmul
  DType result;  ///< c's element type
};

/// The operands of a sum, as addresses. See PlanSum.
struct SumArgs {
  DType dtype, partial;
  int64_t elements; ///< in dst, and in each part
  int64_t count;
  int64_t stride; ///< bytes
  const void *parts;
  const void *bias; ///< null if none
  int64_t biasElements;
  void *dst;
  DType result;    ///< dst's element type
  bool keepsParts; ///< as in PlanSum
};

/// The operands of pointwise functions, as addresses. See PlanPointwise.
struct PointwiseArgs {
  struct Operand {
    DType dtype;
    const void *data; ///< null if none
  };
  DType dtype; ///< type of dst
  int64_t elements;
  void *dst;
  Operand first;
  uint32_t count; ///< number of steps
  PointwiseStep<Operand> steps[kMostPointwiseSteps];
};

/// Chooses GEMM algorithms. All functions may block, and must be called before Compute::warm().
class GemmTuning {
public:
  virtual ~GemmTuning() = default;
  /// Returns a key for the device: devices with equal keys can use the same algorithm choices.
  virtual std::string tuningKey() const = 0;
  /// Loads the algorithm that an earlier job chose for the shape, if any, in the same way as
  /// warm(). Ranks may call this concurrently. The choice is preliminary: setAlgorithm() makes the
  /// final choice.
  virtual Status loadAlgorithm(const PlanMatmul &) { return Status::ok(); }
  /// Finds the best algorithm for this shape, from cached measurements or by measuring, and returns
  /// it as a line of text for setAlgorithm(). `atMost` is the time budget for measuring; if it is
  /// zero, a heuristic chooses the algorithm for unmeasured shapes.
  virtual Result<std::string> tune(const PlanMatmul &shape, std::chrono::milliseconds atMost) = 0;
  /// Makes GEMMs of this shape use `choice`, which tune() returned on a device with the same key.
  virtual Status setAlgorithm(const PlanMatmul &shape, const std::string &choice) = 0;
};

/// GEMMs, sums and pointwise functions. Issue functions behave as described in device.h.
class Compute {
public:
  virtual ~Compute() = default;

  /// True if the device was created with ClusterOptions::reproducible.
  virtual bool isReproducible() const { return false; }
  /// Returns null if this device offers no choice of GEMM algorithms. Null on all ranks or on none.
  virtual GemmTuning *tuning() { return nullptr; }
  /// Returns a sentence about the chosen GEMM algorithms and the tuning time. May be empty.
  virtual std::string choices() const { return ""; }
  /// Loads all resources for GEMMs of this shape, so that nothing is loaded when a GEMM is issued.
  /// Called during preparation.
  virtual Status warm(const PlanMatmul &shape) = 0;

  virtual void matmul(uint32_t stream, Tag tag, const MatmulArgs &args) = 0;
  /// dst = the sum of the parts in order, in f32 (f64 for f64 parts), plus bias, rounded once.
  virtual void sum(uint32_t stream, Tag tag, const SumArgs &args) = 0;
  /// dst = functions applied in order to each element, in f32 (f64 for f64 operands), rounded once.
  virtual void pointwise(uint32_t stream, Tag tag, const PointwiseArgs &args) = 0;
};

} // namespace braid
