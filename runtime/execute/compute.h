//===- runtime/execute/compute.h - a device's arithmetic --------------------------------------===//
#pragma once

#include "api/status.h"
#include "runtime/execute/tag.h"

#include <chrono>

namespace braid {

/// Operands of a GEMM, at addresses. Shapes as in PlanMatmul.
struct MatmulArgs {
  DType dtype;
  bool transposeB;
  int64_t m, n, k;
  const void *a, *b;
  const void *bias;   ///< null: none
  const void *addend; ///< likewise, and is if there is a bias
  void *c;
  bool overlaps; ///< as PlanMatmul's
  DType result;  ///< c's element type
};

/// Operands of a sum, at addresses. As in PlanSum.
struct SumArgs {
  DType dtype, partial;
  int64_t elements; ///< number in dst, and in each part
  int64_t count;
  int64_t stride; ///< bytes
  const void *parts;
  const void *bias; ///< null: none
  int64_t biasElements;
  void *dst;
  DType result;    ///< dst's element type
  bool keepsParts; ///< as PlanSum has it
};

/// Operands of pointwise functions, at addresses. As in PlanPointwise.
struct PointwiseArgs {
  struct Operand {
    DType dtype;
    const void *data; ///< null: none
  };
  DType dtype; ///< type of dst
  int64_t elements;
  void *dst;
  Operand first;
  uint32_t count; ///< number of steps
  PointwiseStep<Operand> steps[kMostPointwiseSteps];
};

/// Choices about GEMMs. All calls may block, and come before Compute::warm().
class GemmTuning {
public:
  virtual ~GemmTuning() = default;
  /// Names what a choice holds for: devices with the same key may take over each other's.
  virtual std::string tuningKey() const = 0;
  /// Does what warm() would with what this rank knows of the shape from earlier jobs, if it knows
  /// something, at the same time as the other ranks. A guess: setAlgorithm() decides.
  virtual Status loadAlgorithm(const PlanMatmul &) { return Status::ok(); }
  /// Finds out how to multiply operands of this shape best, by measuring, or from an earlier
  /// measurement. Takes about `atMost`, if it measures; at most nothing: what nobody knows is left
  /// to a guess. Returns a line of text for setAlgorithm().
  virtual Result<std::string> tune(const PlanMatmul &shape, std::chrono::milliseconds atMost) = 0;
  /// Lets GEMMs of this shape be multiplied as `choice` says, which a device with the same key
  /// has returned from tune().
  virtual Status setAlgorithm(const PlanMatmul &shape, const std::string &choice) = 0;
};

/// GEMMs, sums and functions. Issue functions are as Device's.
class Compute {
public:
  virtual ~Compute() = default;

  /// As ClusterOptions::reproducible, where this device was asked for it.
  virtual bool isReproducible() const { return false; }
  /// Null: nothing to choose, which is so on all ranks or on none.
  virtual GemmTuning *tuning() { return nullptr; }
  /// A sentence about the chosen GEMMs and the time that tuning took. May be empty.
  virtual std::string choices() const { return ""; }
  /// While preparing: loads whatever a GEMM of this shape needs, so that issuing it does not.
  virtual Status warm(const PlanMatmul &shape) = 0;

  virtual void matmul(uint32_t stream, Tag tag, const MatmulArgs &args) = 0;
  /// dst = the sum of the parts in their order, in f32 (f64 for f64), plus bias, rounded once.
  virtual void sum(uint32_t stream, Tag tag, const SumArgs &args) = 0;
  /// dst = functions of each element, in f32 (f64 for f64), rounded once.
  virtual void pointwise(uint32_t stream, Tag tag, const PointwiseArgs &args) = 0;
};

} // namespace braid
