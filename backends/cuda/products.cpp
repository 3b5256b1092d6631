//===- backends/cuda/products.cpp - matrix products by cuBLASLt -------------------------------===//

#include "backends/cuda/products.h"

#include "backends/cuda/elements.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <fmt/format.h>

namespace braid {

namespace {

constexpr size_t kWorkspaceBytes = size_t(32) << 20; // what cuBLAS itself takes on Hopper
constexpr uint32_t kAligned = 16;                    // bytes: what the fast kernels ask for

Status failure(cublasStatus_t code, const char *call) {
  return Status(StatusCode::Unsupported,
                fmt::format("cuBLASLt error {} from {}", static_cast<int>(code), call));
}

#define BRAID_CUBLAS_RETURN_IF_ERROR(call)                                                         \
  do {                                                                                             \
    if (cublasStatus_t braidCublasCode = (call); braidCublasCode != CUBLAS_STATUS_SUCCESS)         \
      return failure(braidCublasCode, #call);                                                      \
  } while (false)

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

/// Where a row of c is not a multiple of 16 bytes, the library adds the bias of a 16-bit product in
/// a step of its own, to sums that it has rounded already (seen with 13.1 on H200).
bool roundsBeforeBias(DType dtype, int64_t n) {
  return sizeOf(dtype) == 2 && n * sizeOf(dtype) % kAligned != 0;
}

} // namespace

/// The functions of the library that are used here.
class CublasLt {
public:
  static Result<const CublasLt *> load();

  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) descCreate = nullptr;
  decltype(&cublasLtMatmulDescDestroy) descDestroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) descSet = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layoutCreate = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layoutDestroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preferenceCreate = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preferenceDestroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preferenceSet = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;

private:
  static Result<CublasLt> open();
};

Result<CublasLt> CublasLt::open() {
  const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  void *library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Status(StatusCode::Unsupported,
                  fmt::format("expected cuBLASLt for the products, got '{}'", dlerror()));
  CublasLt loaded;
  const char *missing = nullptr;
  auto find = [&](const char *symbol, auto &function) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, symbol));
    if (!function)
      missing = symbol;
  };
  find("cublasLtCreate", loaded.create);
  find("cublasLtDestroy", loaded.destroy);
  find("cublasLtMatmul", loaded.matmul);
  find("cublasLtMatmulDescCreate", loaded.descCreate);
  find("cublasLtMatmulDescDestroy", loaded.descDestroy);
  find("cublasLtMatmulDescSetAttribute", loaded.descSet);
  find("cublasLtMatrixLayoutCreate", loaded.layoutCreate);
  find("cublasLtMatrixLayoutDestroy", loaded.layoutDestroy);
  find("cublasLtMatmulPreferenceCreate", loaded.preferenceCreate);
  find("cublasLtMatmulPreferenceDestroy", loaded.preferenceDestroy);
  find("cublasLtMatmulPreferenceSetAttribute", loaded.preferenceSet);
  find("cublasLtMatmulAlgoGetHeuristic", loaded.heuristic);
  if (missing)
    return Status(StatusCode::Unsupported, fmt::format("{} lacks {}", name, missing));
  return loaded;
}

Result<const CublasLt *> CublasLt::load() {
  static const Result<CublasLt> library = open();
  if (!library)
    return library.status();
  return &*library;
}

/// A product that only needs addresses. cuBLASLt's matrices are column-major, ours row-major, so it
/// is asked for the transposed product: c^T = b^T · a^T.
struct Products::Prepared {
  explicit Prepared(const CublasLt &lt) : library(lt) {}
  ~Prepared() {
    for (cublasLtMatrixLayout_t layout : {left, right, result})
      if (layout)
        library.layoutDestroy(layout);
    if (operation)
      library.descDestroy(operation);
  }
  Prepared(const Prepared &) = delete;

  Status describe(const Key &key);
  Status pick(cublasLtHandle_t handle, uint32_t alignment);

  const CublasLt &library;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t left = nullptr, right = nullptr, result = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
  bool isDouble = false;
  cuda::Element element = cuda::Element::F32;
  bool broadcastsBias = false; ///< c becomes the bias first, and the product is added to it
};

Status Products::Prepared::describe(const Key &key) {
  const auto [typeNumber, m, n, k, transposeB, hasBias, isAligned] = key;
  const DType dtype = static_cast<DType>(typeNumber);
  isDouble = dtype == DType::F64;
  const cudaDataType_t type = dataType(dtype);
  // Plain f32: TF32 rounds the operands, which nobody asked for.
  BRAID_CUBLAS_RETURN_IF_ERROR(
      library.descCreate(&operation, isDouble ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                         isDouble ? CUDA_R_64F : CUDA_R_32F));
  const cublasOperation_t transposed = transposeB ? CUBLAS_OP_T : CUBLAS_OP_N;
  BRAID_CUBLAS_RETURN_IF_ERROR(
      library.descSet(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)));
  // Nor does the library take a bias at an address that is not aligned.
  broadcastsBias = hasBias && (!isAligned || roundsBeforeBias(dtype, n));
  element = elementOf(dtype);
  if (hasBias && !broadcastsBias) {
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    BRAID_CUBLAS_RETURN_IF_ERROR(
        library.descSet(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue)));
  }
  auto rows = [](int64_t extent) { return static_cast<uint64_t>(extent); };
  BRAID_CUBLAS_RETURN_IF_ERROR(transposeB ? library.layoutCreate(&left, type, rows(k), rows(n), k)
                                          : library.layoutCreate(&left, type, rows(n), rows(k), n));
  BRAID_CUBLAS_RETURN_IF_ERROR(library.layoutCreate(&right, type, rows(k), rows(m), k));
  BRAID_CUBLAS_RETURN_IF_ERROR(library.layoutCreate(&result, type, rows(n), rows(m), n));
  return Status::ok();
}

Status Products::Prepared::pick(cublasLtHandle_t handle, uint32_t alignment) {
  cublasLtMatmulPreference_t preference = nullptr;
  BRAID_CUBLAS_RETURN_IF_ERROR(library.preferenceCreate(&preference));
  std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                  decltype(library.preferenceDestroy)>
      owner(preference, library.preferenceDestroy);
  auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    return library.preferenceSet(preference, attribute, &value, sizeof(value));
  };
  BRAID_CUBLAS_RETURN_IF_ERROR(
      set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(kWorkspaceBytes)));
  // Partial sums are added in the compute type, or not split at all: anything else would round
  // more than once.
  BRAID_CUBLAS_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                   uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)));
  for (auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    BRAID_CUBLAS_RETURN_IF_ERROR(set(operand, alignment));
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  BRAID_CUBLAS_RETURN_IF_ERROR(library.heuristic(handle, operation, left, right, result, result,
                                                 preference, 1, &found, &count));
  if (count == 0)
    return Status(StatusCode::Unsupported, "cuBLASLt has no algorithm for a product of this shape");
  algorithm = found.algo;
  return Status::ok();
}

Products::Products(const CublasLt &library) : library_(library) {}

Result<std::unique_ptr<Products>> Products::create() {
  Result<const CublasLt *> library = CublasLt::load();
  if (!library)
    return library.status();
  std::unique_ptr<Products> products(new Products(**library));
  cublasLtHandle_t handle = nullptr;
  BRAID_CUBLAS_RETURN_IF_ERROR((*library)->create(&handle));
  products->handle_ = handle;
  return products;
}

Products::~Products() {
  prepared_.clear();
  for (void *workspace : workspaces_)
    cudaFree(workspace);
  if (handle_)
    library_.destroy(static_cast<cublasLtHandle_t>(handle_));
}

Status Products::reserveWorkspaces(uint32_t count) {
  while (workspaces_.size() < count) {
    void *workspace = nullptr;
    BRAID_CUDA_RETURN_IF_ERROR(cudaMalloc(&workspace, kWorkspaceBytes));
    workspaces_.push_back(workspace);
  }
  return Status::ok();
}

Result<std::unique_ptr<Products::Prepared>> Products::choose(const Key &key) {
  auto [dtype, m, n, k, transposeB, hasBias, isAligned] = key;
  auto prepared = std::make_unique<Prepared>(library_);
  Status status = prepared->describe(key);
  if (status.isOk())
    status = prepared->pick(static_cast<cublasLtHandle_t>(handle_),
                            isAligned ? kAligned
                                      : static_cast<uint32_t>(sizeOf(static_cast<DType>(dtype))));
  if (!status.isOk())
    return status.annotated(fmt::format("a {} product of {} x {} x {}",
                                        name(static_cast<DType>(dtype)).str(), m, n, k));
  return prepared;
}

Status Products::warm(const PlanMatmul &shape) {
  for (bool isAligned : {true, false}) {
    Key key(static_cast<int>(shape.dtype), shape.m, shape.n, shape.k, shape.transposeB,
            shape.bias.bytes != 0, isAligned);
    if (prepared_.count(key))
      continue;
    Result<std::unique_ptr<Prepared>> chosen = choose(key);
    if (!chosen)
      return chosen.status();
    prepared_.emplace(key, std::move(*chosen));
    if (Status status = runOnce(shape, isAligned); !status.isOk())
      return status;
  }
  return Status::ok();
}

Status Products::runOnce(const PlanMatmul &shape, bool isAligned) {
  if (Status status = reserveWorkspaces(1); !status.isOk())
    return status;
  const int64_t element = sizeOf(shape.dtype);
  // Each operand at an address of its own, away from alignment if that is what is tried.
  auto bytesOf = [&](int64_t elements) { return (elements * element + 511) / 256 * 256; };
  const int64_t a = bytesOf(shape.m * shape.k), b = bytesOf(shape.k * shape.n),
                c = bytesOf(shape.m * shape.n), bias = bytesOf(shape.n);
  char *scratch = nullptr;
  BRAID_CUDA_RETURN_IF_ERROR(cudaMalloc(&scratch, static_cast<size_t>(a + b + c + bias)));
  char *begin = scratch + (isAligned ? 0 : element);
  MatmulArgs args{shape.dtype, shape.transposeB, shape.m, shape.n,      shape.k,
                  begin,       begin + a,        nullptr, begin + a + b};
  args.bias = shape.bias.bytes != 0 ? begin + a + b + c : nullptr;
  Status status = multiply(nullptr, 0, args);
  cudaError_t code = cudaDeviceSynchronize();
  cudaFree(scratch);
  if (status.isOk() && code != cudaSuccess)
    status = cudaFailure(code, "cudaDeviceSynchronize");
  return status;
}

Status Products::multiply(cudaStream_t stream, uint32_t workspace, const MatmulArgs &args) {
  auto bits = reinterpret_cast<uintptr_t>(args.a) | reinterpret_cast<uintptr_t>(args.b) |
              reinterpret_cast<uintptr_t>(args.c) | reinterpret_cast<uintptr_t>(args.bias);
  auto found = prepared_.find({static_cast<int>(args.dtype), args.m, args.n, args.k,
                               args.transposeB, args.bias != nullptr, bits % kAligned == 0});
  if (found == prepared_.end())
    return Status(StatusCode::Internal,
                  fmt::format("a product of {} x {} x {} was not warmed", args.m, args.n, args.k));
  Prepared &product = *found->second;
  if (product.broadcastsBias)
    cuda::launchBroadcast(stream, product.element, args.c, args.bias, args.m, args.n);
  else if (args.bias)
    BRAID_CUBLAS_RETURN_IF_ERROR(library_.descSet(
        product.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &args.bias, sizeof(args.bias)));
  const float one = 1, kept = product.broadcastsBias ? 1 : 0;
  const double doubleOne = 1, doubleKept = kept;
  const void *alpha = product.isDouble ? static_cast<const void *>(&doubleOne) : &one;
  const void *beta = product.isDouble ? static_cast<const void *>(&doubleKept) : &kept;
  BRAID_CUBLAS_RETURN_IF_ERROR(library_.matmul(
      static_cast<cublasLtHandle_t>(handle_), product.operation, alpha, args.b, product.left,
      args.a, product.right, beta, args.c, product.result, args.c, product.result,
      &product.algorithm, workspaces_[workspace], kWorkspaceBytes, stream));
  return Status::ok();
}

} // namespace braid
