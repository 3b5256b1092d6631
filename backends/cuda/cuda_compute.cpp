//===- backends/cuda/cuda_compute.cpp - arithmetic on one GPU ---------------------------------===//

#include "backends/cuda/cuda_compute.h"

#include "backends/cuda/elements.h"
#include "backends/cuda/launch_filler.h"

namespace braid {

void CudaCompute::matmul(uint32_t stream, Tag tag, const MatmulArgs &args) {
  if (gpu_.group.isAborted() || args.m == 0 || args.n == 0)
    return;
  const Issuing issuing(tracer_, stream, tag);
  const Workspace workspace = streams_.isCapturing()
                                  ? progress_.of(tag.plan).ofGraphs.workspaces[stream]
                                  : gemms_->workspace(stream);
  gpu_.check(gemms_->multiply(streams_.of(stream), workspace, args));
}

void CudaCompute::sum(uint32_t stream, Tag tag, const SumArgs &args) {
  if (gpu_.group.isAborted() || args.elements == 0)
    return;
  const Issuing issuing(tracer_, stream, tag);
  cuda::launchSum(streams_.of(stream), cuda::sumOf(args));
  gpu_.check(cudaGetLastError(), "launchSum");
}

namespace {

/// Returns the element type of operands that are not accumulators: a 16-bit type if any operand has
/// one.
DType narrowest(const PointwiseArgs &args) {
  DType dtype = args.dtype;
  const auto take = [&](const PointwiseArgs::Operand &operand) {
    if (operand.data && sizeOf(operand.dtype) < sizeOf(dtype))
      dtype = operand.dtype;
  };
  take(args.first);
  for (uint32_t i = 0; i < args.count; ++i)
    take(args.steps[i].operand);
  return dtype;
}

} // namespace

void CudaCompute::pointwise(uint32_t stream, Tag tag, const PointwiseArgs &args) {
  if (gpu_.group.isAborted())
    return;
  const DType narrow = narrowest(args);
  const auto operandOf = [&](const PointwiseArgs::Operand &operand) {
    return cuda::Pointwise::Operand{operand.data && operand.dtype != narrow, operand.data};
  };
  cuda::Pointwise work{elementOf(narrow),     args.elements, operandOf({args.dtype, args.dst}),
                       operandOf(args.first), args.count,    {}};
  for (uint32_t i = 0; i < args.count; ++i)
    work.steps[i] = {args.steps[i].function, operandOf(args.steps[i].operand)};
  const Issuing issuing(tracer_, stream, tag);
  cuda::launchPointwise(streams_.of(stream), work);
  gpu_.check(cudaGetLastError(), "launchPointwise");
}

} // namespace braid
