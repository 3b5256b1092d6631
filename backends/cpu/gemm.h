//===- backends/cpu/gemm.h - GEMMs, sums and pointwise functions on the host ------------------===//
#pragma once

#include "runtime/execute/compute.h"

#include <memory>

namespace braid {

/// Memory for converted operands. Grows on demand and never shrinks. Each thread that calls
/// multiply() needs its own Scratch.
class Scratch {
public:
  /// Returns at least `bytes` bytes, aligned to 64 bytes, with undefined contents. Throws
  /// std::bad_alloc.
  void *reserve(size_t bytes);

private:
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  size_t size_ = 0;
};

/// Bytes of address space that OpenBLAS 0.3 maps for each concurrent GEMM on x86-64.
inline constexpr size_t kGemmBufferBytes = size_t(128) << 20;

/// Returns the number of scratch bytes that multiply() needs for this shape.
size_t scratchBytes(DType dtype, int64_t m, int64_t n, int64_t k);

/// The implementation used for a GEMM.
enum class GemmBy : uint8_t {
  Library, ///< OpenBLAS with one thread per call; the order of additions may depend on the shape
  Loops,   ///< plain loops that accumulate in ascending order of K; much slower
};

/// Computes c = a * b (+ bias or addend), as PlanMatmul describes. Accumulates in f32, or in f64 if
/// the operands are f64, adds the bias or addend in that type, and rounds once. Throws
/// std::bad_alloc if the scratch cannot grow.
///
/// Always uses loops under ThreadSanitizer or if BRAID_PLAIN_GEMM is defined, because OpenBLAS is
/// not instrumented and its locks would order otherwise unordered streams.
void multiply(const MatmulArgs &args, Scratch &scratch, GemmBy by);

/// Implements Compute::sum.
void sumParts(const SumArgs &args);

/// Implements Compute::pointwise.
void applyFunctions(const PointwiseArgs &args);

/// Makes OpenBLAS run each GEMM on the calling thread only. Call once, before the first GEMM.
void initializeGemms();

} // namespace braid
