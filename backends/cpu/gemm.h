//===- backends/cpu/gemm.h - GEMMs, sums and pointwise functions on the host ------------------===//
#pragma once

#include "runtime/execute/compute.h"

#include <memory>

namespace braid {

/// Memory for converted operands. Grows and never shrinks; one for each thread that multiplies.
class Scratch {
public:
  /// At least `bytes` of memory, aligned to 64 bytes; what was in it is lost. Throws
  /// std::bad_alloc.
  void *reserve(size_t bytes);

private:
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  size_t size_ = 0;
};

/// Addresses that OpenBLAS 0.3 maps for each GEMM under way, on x86-64.
inline constexpr size_t kGemmBufferBytes = size_t(128) << 20;

/// Bytes that multiply() takes from its scratch for operands of such shape.
size_t scratchBytes(DType dtype, int64_t m, int64_t n, int64_t k);

/// The library or code that multiplies.
enum class GemmBy : uint8_t {
  Library, ///< OpenBLAS, one thread a call: the order in which it adds may depend on the shape
  Loops,   ///< ours: every element is summed from the first product to the last, and much slower
};

/// c = a * b (+ bias or addend), see PlanMatmul. Sums are in f32 (f64 for f64), bias or addend are
/// added to them, and the result is rounded once. Throws std::bad_alloc if the scratch cannot
/// grow.
///
/// Under ThreadSanitizer, or with BRAID_PLAIN_GEMM defined, always by loops: OpenBLAS is not
/// instrumented, and its locks would order streams that nothing orders.
void multiply(const MatmulArgs &args, Scratch &scratch, GemmBy by);

/// As Device::sum.
void sumParts(const SumArgs &args);

/// As Device::pointwise.
void applyFunctions(const PointwiseArgs &args);

/// Tells OpenBLAS to use the calling thread only. Call once, before the first GEMM.
void initializeGemms();

} // namespace braid
