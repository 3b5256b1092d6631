//===- backends/cpu/gemm.h - GEMMs, sums and pointwise functions on the host ------------------===//
#pragma once

#include "runtime/execute/compute.h"

#include <memory>

namespace braid {

/// Memory for converted operands, which grows and never shrinks. Each thread that calls multiply()
/// needs one.
class Scratch {
public:
  /// Returns at least `bytes` of memory, aligned to 64 bytes, with undefined contents. Throws
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

/// Returns the bytes of scratch that multiply() needs for operands of this shape.
size_t scratchBytes(DType dtype, int64_t m, int64_t n, int64_t k);

/// The implementation of GEMMs.
enum class GemmBy : uint8_t {
  Library, ///< OpenBLAS with one thread per call; the order of additions may depend on the shape
  Loops,   ///< plain loops, which add in order of K; much slower
};

/// Computes c = a * b (+ bias or addend), see PlanMatmul. Accumulates in f32 (f64 for f64), adds
/// the bias or addend in that type, and rounds once. Throws std::bad_alloc if the scratch cannot
/// grow.
///
/// Under ThreadSanitizer, or with BRAID_PLAIN_GEMM defined, always uses loops: OpenBLAS is not
/// instrumented, and its locks would order streams that are otherwise unordered.
void multiply(const MatmulArgs &args, Scratch &scratch, GemmBy by);

/// Implements Device::sum.
void sumParts(const SumArgs &args);

/// Implements Device::pointwise.
void applyFunctions(const PointwiseArgs &args);

/// Restricts OpenBLAS to the calling thread. Call once, before the first GEMM.
void initializeGemms();

} // namespace braid
