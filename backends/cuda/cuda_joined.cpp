//===- backends/cuda/cuda_joined.cpp - joined products of a GPU -------------------------------===//
//
// One kernel for a run of products and the awaits between them (joined_product.h). It keeps all
// processors until it ends, also while it waits. So whatever a peer may be waiting for must need
// none: joinProducts() has put all that needs one on the stream of the products, and copies and
// signals are left to engines and memory operations, here and on every rank.
//
//===----------------------------------------------------------------------------------------===//

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/elements.h"
#include "backends/cuda/issuing.h"

#include <fmt/format.h>

namespace braid {
namespace {

constexpr int64_t kAlignment = 16; ///< of rows and addresses, for tensor memory copies

bool isAligned(const void *address) {
  return reinterpret_cast<uintptr_t>(address) % kAlignment == 0;
}

} // namespace

Status CudaDevice::startJoined() {
  constexpr size_t kBytes =
      2 * size_t(kMaxStreams) * cuda::JoinedProduct::kCounters * sizeof(uint32_t);
  BRAID_CUDA_RETURN_IF_ERROR(cudaMalloc(&joinedCounters_, kBytes));
  BRAID_CUDA_RETURN_IF_ERROR(cudaMemset(joinedCounters_, 0, kBytes));
  int major = 0, minor = 0;
  BRAID_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, options_.device));
  BRAID_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, options_.device));
  hasJoinedProducts_ = major == 9 && minor == 0;
  if (hasJoinedProducts_)
    BRAID_CUDA_RETURN_IF_ERROR(cuda::loadJoinedProduct());
  return Status::ok();
}

/// A rank that shares its GPU could keep it from the one it waits for.
bool CudaDevice::joins(const PlanMatmul &shape) const {
  const int64_t inRow = kAlignment / 2;
  return hasJoinedProducts_ && !options_.mayShare &&
         (shape.dtype == DType::BF16 || shape.dtype == DType::F16) && shape.bias.bytes == 0 &&
         shape.n > 0 && shape.k > 0 && shape.n % inRow == 0 && shape.k % inRow == 0;
}

Status CudaDevice::checkJoined(const Plan &plan) const {
  if (!plan.joinsProducts)
    return Status::ok();
  if (means_.copies == CopyBy::Kernel || means_.signals == SignalBy::Kernel)
    return Status(StatusCode::BadInput,
                  "--products joined: expected copies by engine and signals by memory, for joined "
                  "products leave no processor to kernels that peers wait for");
  for (const PlanMatmul &shape : plan.matmuls)
    if (!joins(shape))
      return Status(StatusCode::Unsupported,
                    fmt::format("--products joined: expected bf16 or f16 without bias, n and k "
                                "multiples of 8, and a GPU of compute capability 9.0 for each rank "
                                "alone; got a {} product of {} x {} x {}{} on {}",
                                name(shape.dtype).str(), shape.m, shape.n, shape.k,
                                shape.bias.bytes != 0 ? " with bias" : "", description()));
  return Status::ok();
}

void CudaDevice::joined(uint32_t stream, Tag tag, llvm::ArrayRef<ProductStep> steps) {
  while (!steps.empty() && !group_.isAborted()) {
    tag.command = steps.front().command;
    Issuing issuing(*this, stream, tag);
    const MatmulArgs &shape = steps.back().args;
    cuda::JoinedProduct product;
    product.step = &steps_[stream].done;
    product.counters = joinedCounters_ + (stream + (isCapturing_ ? kMaxStreams : 0)) *
                                             cuda::JoinedProduct::kCounters;
    product.n = static_cast<uint32_t>(shape.n);
    product.k = static_cast<uint32_t>(shape.k);
    const size_t count = addToJoined(product, stream, tag, steps);
    if (count == 0)
      return;
    steps = steps.drop_front(count);
    cuda::launchJoinedProduct(streams_[stream], elementOf(shape.dtype), shape.transposeB, product,
                              processors_);
    check(cudaGetLastError(), "launchJoinedProduct");
  }
}

/// How many of `steps` one kernel can take. 0: an error, which the group knows.
size_t CudaDevice::addToJoined(cuda::JoinedProduct &product, uint32_t stream, Tag tag,
                               llvm::ArrayRef<ProductStep> steps) {
  const MatmulArgs &shape = steps.back().args;
  const cuda::JoinedBox boxOfB = shape.transposeB ? cuda::kBoxOfTransposedB : cuda::kBoxOfB;
  if (!addMap(product.b, shape.b, shape.transposeB ? shape.n : shape.k,
              shape.transposeB ? shape.k : shape.n, shape.dtype, boxOfB))
    return 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const ProductStep &step = steps[i];
    constexpr uint32_t kMost = cuda::JoinedProduct::kMost;
    if (product.wordCount == kMost || product.partCount == kMost)
      return i;
    if (step.kind == CommandKind::Await) {
      tag.command = step.command;
      product.words[product.wordCount++] = {static_cast<uint32_t *>(step.word),
                                            number(stream, tag)};
    } else if (step.args.m != 0 && !addPart(product, step.args)) {
      return 0;
    }
  }
  return steps.size();
}

bool CudaDevice::addPart(cuda::JoinedProduct &product, const MatmulArgs &args) {
  const uint32_t part = product.partCount++;
  product.parts[part] = {static_cast<uint32_t>(args.m), product.wordCount};
  return addMap(product.a[part], args.a, args.m, args.k, args.dtype, cuda::kBoxOfA) &&
         addMap(product.c[part], args.c, args.m, args.n, args.dtype, cuda::kBoxOfC);
}

/// A row-major matrix; what lies beyond reads as 0 and is not written.
bool CudaDevice::addMap(CUtensorMap &map, const void *address, int64_t rows, int64_t columns,
                        DType dtype, cuda::JoinedBox box) {
  if (!isAligned(address)) {
    group_.abort(Status(StatusCode::BadInput,
                        fmt::format("rank {}: --products joined: expected tensors at multiples of "
                                    "{} bytes, got one at {}",
                                    options_.rank, kAlignment, address)));
    return false;
  }
  const cuuint64_t extents[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t rowBytes[] = {extents[0] * sizeof(uint16_t)};
  const cuuint32_t boxExtents[] = {box.columns, box.rows}, everyElement[] = {1, 1};
  check(driver_->tensorMapEncodeTiled(
            &map,
            dtype == DType::F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            2, const_cast<void *>(address), extents, rowBytes, boxExtents, everyElement,
            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "cuTensorMapEncodeTiled");
  return !group_.isAborted();
}

} // namespace braid
