//===- backends/cuda/gemm/fixed_algorithm.cpp - one algorithm for every number of rows --------===//

#include "backends/cuda/gemm/fixed_algorithm.h"

#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid {
namespace {

/// M of the GEMM whose candidate list is used: large enough that its algorithms occupy an entire
/// GPU.
constexpr int64_t kRowsOfList = 4096;
constexpr int kCandidates = 32; ///< requested from the library
/// The tested values of M. Not all are powers of two, because a kernel may accept only whole tiles.
constexpr int64_t kTried[] = {1, 2, 7, 8, 17, 64, 100, 256, 1000, 4096, 10007, 32768};

using TriedGemms = std::vector<std::unique_ptr<LtGemm>>;

/// Returns one GEMM with the properties of `shape` for each tested number of rows.
Result<TriedGemms> describeTried(const CublasLt &library, cublasLtHandle_t handle,
                                 GemmShape shape) {
  TriedGemms gemms;
  for (int64_t rows : kTried) {
    shape.m = rows;
    gemms.push_back(BRAID_TRY(LtGemm::create(library, handle, shape)));
  }
  return gemms;
}

} // namespace

GemmShape kindOf(GemmShape shape) {
  const int64_t element = sizeOf(shape.dtype), result = sizeOf(shape.result);
  const int64_t ofA = shape.k * element, ofB = (shape.transposeB ? shape.k : shape.n) * element;
  shape.isAligned = llvm::all_of(std::initializer_list<int64_t>{ofA, ofB, shape.n * result},
                                 [](int64_t bytes) { return bytes % kGemmAlignment == 0; });
  shape.m = kRowsOfList;
  shape.overlaps = false;
  return shape;
}

std::string nameOfKind(const GemmShape &kind) {
  return fmt::format("{} GEMMs with N = {} and K = {}{}{}{}", name(kind.dtype).str(), kind.n,
                     kind.k,
                     kind.result != kind.dtype ? ", " + name(kind.result).str() + " results" : "",
                     kind.transposeB ? ", B transposed" : "", kind.hasBias ? ", with a bias" : "");
}

Result<LtGemm::Algorithm> fixedAlgorithm(const CublasLt &library, cublasLtHandle_t handle,
                                         const GemmShape &kind) {
  const Status none = unsupported(
      "--reproducible: cuBLASLt has no algorithm for {} that supports every M and does not split K",
      nameOfKind(kind));
  const std::unique_ptr<LtGemm> ofList = BRAID_TRY(LtGemm::create(library, handle, kind));
  const TriedGemms tried = BRAID_TRY(describeTried(library, handle, kind));
  Result<std::vector<LtGemm::Algorithm>> list =
      ofList->candidates(kCandidates, LtGemm::SplitsK::Never);
  if (!list)
    return none;
  // An algorithm without a fixed tile might choose its tile based on M.
  std::stable_partition(list->begin(), list->end(), [&](const LtGemm::Algorithm &algorithm) {
    return ofList->hasTile(algorithm);
  });
  for (const LtGemm::Algorithm &algorithm : *list)
    if (!ofList->splitsK(algorithm) &&
        llvm::all_of(tried, [&](const auto &gemm) { return gemm->check(algorithm).isOk(); }))
      return algorithm;
  return none;
}

} // namespace braid
