//===- backends/cuda/gemm/lt_gemm.cpp - a single cuBLASLt GEMM --------------------------------===//

#include "backends/cuda/gemm/lt_gemm.h"

#include "backends/cuda/elements.h"
#include "ir/failure.h"

#include <set>

namespace braid {
namespace {

cudaDataType_t dataType(DType dtype) {
  switch (dtype) {
  case DType::BF16:
    return CUDA_R_16BF;
  case DType::F16:
    return CUDA_R_16F;
  case DType::F32:
    return CUDA_R_32F;
  case DType::F64:
    return CUDA_R_64F;
  }
  return CUDA_R_32F;
}

/// If the row size of c is not a multiple of 16 bytes, the library adds the bias of a 16-bit GEMM
/// in a separate step, after rounding the sums (observed with version 13.1 on H200).
bool roundsBeforeBias(DType dtype, int64_t n) {
  return sizeOf(dtype) == 2 && n * sizeOf(dtype) % kGemmAlignment != 0;
}

/// Split-K must add partial sums in the compute type, because other schemes round more than once.
constexpr uint32_t kReductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

} // namespace

Result<std::unique_ptr<LtGemm>> LtGemm::create(const CublasLt &library, cublasLtHandle_t handle,
                                               const GemmShape &shape) {
  std::unique_ptr<LtGemm> gemm(new LtGemm(library, handle, shape));
  BRAID_TRY(gemm->describe());
  return gemm;
}

LtGemm::~LtGemm() {
  for (cublasLtMatrixLayout_t layout : {left_, right_, result_})
    if (layout)
      library_.layoutDestroy(layout);
  if (operation_)
    library_.descDestroy(operation_);
}

Status LtGemm::describe() {
  const auto [dtype, m, n, k, transposeB, hasBias, isAligned, overlaps, result, hasAddend] = shape_;
  const bool isDouble = dtype == DType::F64;
  const cudaDataType_t type = dataType(dtype);
  // Uses plain f32, because TF32 would round the operands.
  BRAID_CUBLAS_RETURN_IF_ERROR(
      library_.descCreate(&operation_, isDouble ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                          isDouble ? CUDA_R_64F : CUDA_R_32F));
  const cublasOperation_t transposed = transposeB ? CUBLAS_OP_T : CUBLAS_OP_N;
  BRAID_CUBLAS_RETURN_IF_ERROR(
      library_.descSet(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)));
  // The library also rejects unaligned biases and, if c's type is wider than the operands' type,
  // biases of the operands' type.
  broadcastsBias_ = hasBias && (!isAligned || result != dtype || roundsBeforeBias(dtype, n));
  if (hasBias && !broadcastsBias_) {
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    BRAID_CUBLAS_RETURN_IF_ERROR(
        library_.descSet(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue)));
  }
  auto rows = [](int64_t extent) { return static_cast<uint64_t>(extent); };
  BRAID_CUBLAS_RETURN_IF_ERROR(transposeB
                                   ? library_.layoutCreate(&left_, type, rows(k), rows(n), k)
                                   : library_.layoutCreate(&left_, type, rows(n), rows(k), n));
  BRAID_CUBLAS_RETURN_IF_ERROR(library_.layoutCreate(&right_, type, rows(k), rows(m), k));
  BRAID_CUBLAS_RETURN_IF_ERROR(
      library_.layoutCreate(&result_, dataType(result), rows(n), rows(m), n));
  return Status::ok();
}

Result<std::vector<LtGemm::Algorithm>> LtGemm::candidates(int atMost, SplitsK splits) const {
  cublasLtMatmulPreference_t preference = nullptr;
  BRAID_CUBLAS_RETURN_IF_ERROR(library_.preferenceCreate(&preference));
  std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                  decltype(library_.preferenceDestroy)>
      owner(preference, library_.preferenceDestroy);
  auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    return library_.preferenceSet(preference, attribute, &value, sizeof(value));
  };
  BRAID_CUBLAS_RETURN_IF_ERROR(
      set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(kWorkspaceBytes)));
  const uint32_t reductions =
      splits == SplitsK::Never ? uint32_t(CUBLASLT_REDUCTION_SCHEME_NONE) : kReductions;
  BRAID_CUBLAS_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions));
  auto alignmentOf = [&](DType dtype) {
    return shape_.isAligned ? kGemmAlignment : static_cast<uint32_t>(sizeOf(dtype));
  };
  for (auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES})
    BRAID_CUBLAS_RETURN_IF_ERROR(set(operand, alignmentOf(shape_.dtype)));
  for (auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    BRAID_CUBLAS_RETURN_IF_ERROR(set(operand, alignmentOf(shape_.result)));
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(atMost));
  int count = 0;
  BRAID_CUBLAS_RETURN_IF_ERROR(library_.heuristic(handle_, operation_, left_, right_, result_,
                                                  result_, preference, atMost, found.data(),
                                                  &count));
  std::vector<Algorithm> algorithms;
  for (int i = 0; i < count; ++i)
    if (found[static_cast<size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
      algorithms.push_back(found[static_cast<size_t>(i)].algo);
  if (algorithms.empty())
    return unsupported("cuBLASLt has no algorithm for a GEMM of this shape");
  return algorithms;
}

/// The library requires `Value` to have exactly the size of the attribute.
template <class Value>
int32_t LtGemm::attribute(const Algorithm &algorithm,
                          cublasLtMatmulAlgoConfigAttributes_t attribute) const {
  Value value = 0;
  size_t written = 0;
  (void)library_.configGet(&algorithm, attribute, &value, sizeof(value), &written);
  return value;
}

bool LtGemm::splitsK(const Algorithm &algorithm) const {
  return attribute<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) > 1 ||
         attribute<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) !=
             CUBLASLT_REDUCTION_SCHEME_NONE;
}

bool LtGemm::hasTile(const Algorithm &algorithm) const {
  return attribute<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID) !=
         CUBLASLT_MATMUL_TILE_UNDEFINED;
}

/// Returns the attributes that identify an algorithm, independent of the shape.
std::vector<int32_t> LtGemm::configuration(const Algorithm &algorithm) const {
  std::vector<int32_t> values;
  for (auto attribute :
       {CUBLASLT_ALGO_CONFIG_ID, CUBLASLT_ALGO_CONFIG_TILE_ID, CUBLASLT_ALGO_CONFIG_STAGES_ID,
        CUBLASLT_ALGO_CONFIG_SPLITK_NUM, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
        CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION})
    values.push_back(this->attribute<int32_t>(algorithm, attribute));
  for (auto attribute :
       {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID})
    values.push_back(this->attribute<uint16_t>(algorithm, attribute));
  return values;
}

Result<std::vector<LtGemm::Algorithm>> LtGemm::manyCandidates(int atMostOfEach) const {
  std::vector<Algorithm> algorithms = BRAID_TRY(candidates(atMostOfEach));
  std::set<std::vector<int32_t>> known;
  for (const Algorithm &algorithm : algorithms)
    known.insert(configuration(algorithm));
  for (int64_t times : {2, 4}) {
    GemmShape larger = shape_;
    larger.m *= times;
    const std::unique_ptr<LtGemm> gemm = BRAID_TRY(create(library_, handle_, larger));
    const Result<std::vector<Algorithm>> more = gemm->candidates(atMostOfEach);
    if (!more)
      continue; // no candidates for the larger GEMM
    for (const Algorithm &algorithm : *more)
      if (check(algorithm).isOk() && known.insert(configuration(algorithm)).second)
        algorithms.push_back(algorithm);
  }
  return algorithms;
}

Status LtGemm::check(const Algorithm &algorithm) const {
  cublasLtMatmulHeuristicResult_t about = {};
  BRAID_CUBLAS_RETURN_IF_ERROR(
      library_.check(handle_, operation_, left_, right_, result_, result_, &algorithm, &about));
  uint32_t reduction = 0;
  size_t written = 0;
  BRAID_CUBLAS_RETURN_IF_ERROR(library_.configGet(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                                  &reduction, sizeof(reduction), &written));
  if (about.workspaceSize <= kWorkspaceBytes && (reduction & ~kReductions) == 0)
    return Status::ok();
  return unsupported("expected an algorithm that uses at most {} bytes of workspace and rounds "
                     "once, got one with {} bytes and reduction scheme {}",
                     kWorkspaceBytes, about.workspaceSize, reduction);
}

void LtGemm::use(const Algorithm &algorithm) {
  algorithm_ = algorithm;
  cublasLtMatmulHeuristicResult_t about = {};
  const bool isKnown = library_.check(handle_, operation_, left_, right_, result_, result_,
                                      &algorithm, &about) == CUBLAS_STATUS_SUCCESS;
  workspaceBytes_ = isKnown ? about.workspaceSize : kWorkspaceBytes;
}

Status LtGemm::launch(cudaStream_t stream, Workspace workspace, const MatmulArgs &args) {
  if (broadcastsBias_)
    cuda::launchBroadcast(stream, elementOf(shape_.result), args.c, elementOf(shape_.dtype),
                          args.bias, args.m, args.n);
  else if (args.bias)
    BRAID_CUBLAS_RETURN_IF_ERROR(library_.descSet(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                  &args.bias, sizeof(args.bias)));
  const bool isDouble = shape_.dtype == DType::F64;
  const float one = 1, kept = broadcastsBias_ || shape_.hasAddend ? 1 : 0;
  const double doubleOne = 1, doubleKept = kept;
  const void *alpha = isDouble ? static_cast<const void *>(&doubleOne) : &one;
  const void *beta = isDouble ? static_cast<const void *>(&doubleKept) : &kept;
  const void *added = shape_.hasAddend ? args.addend : args.c;
  BRAID_CUBLAS_RETURN_IF_ERROR(library_.matmul(
      handle_, operation_, alpha, args.b, left_, args.a, right_, beta, added, result_, args.c,
      result_, &algorithm_, workspace.data, workspace.bytes, stream));
  return Status::ok();
}

} // namespace braid
