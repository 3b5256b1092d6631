//===- api/bench/row_tensors.cpp - the tensors that all rows of a bench share -----------------===//

#include "api/bench/row_tensors.h"

#include "api/timing/random_tile.h"
#include "ir/failure.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace braid {
namespace {

/// Too many to repeat within a cache line's reach, few enough to be made in a moment.
constexpr size_t kTileElements = size_t(1) << 20;

} // namespace

RowTensors::RowTensors(Device &device, DType dtype, int64_t rank)
    : device_(device), tile_(randomTile(dtype, kTileElements, 1 + static_cast<uint64_t>(rank))) {}

Result<std::vector<void *>> RowTensors::inputsOf(const Plan &plan) {
  return take(plan, plan.inputs, inputs_, /*isRandom=*/true);
}

Result<std::vector<void *>> RowTensors::outputsOf(const Plan &plan) {
  return take(plan, plan.outputs, outputs_, /*isRandom=*/false);
}

Result<std::vector<void *>> RowTensors::take(const Plan &plan, llvm::ArrayRef<uint32_t> buffers,
                                             std::vector<Tensor> &tensors, bool isRandom) {
  tensors.resize(std::max(tensors.size(), buffers.size()));
  std::vector<void *> addresses;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const int64_t bytes = plan.buffers[buffers[i]].bytes;
    BRAID_TRY(grow(tensors[i], bytes, isRandom));
    addresses.push_back(tensors[i].address);
  }
  return addresses;
}

/// Memory is not given back, so it grows by doubling.
Status RowTensors::grow(Tensor &tensor, int64_t bytes, bool isRandom) {
  if (bytes <= tensor.bytes)
    return Status::ok();
  bytes = static_cast<int64_t>(llvm::PowerOf2Ceil(static_cast<uint64_t>(bytes)));
  void *memory = BRAID_TRY(device_.allocate(ArenaKind::Private, bytes));
  tensor = {memory, bytes};
  allocatedBytes_ += bytes;
  if (isRandom)
    fill(tensor);
  return device_.synchronize();
}

/// The tile over and over; it has to be kept until the device has read it.
void RowTensors::fill(const Tensor &tensor) {
  const int64_t step = static_cast<int64_t>(tile_.size());
  for (int64_t at = 0; at < tensor.bytes; at += step)
    device_.copy(0, {}, static_cast<char *>(tensor.address) + at, tile_.data(),
                 std::min(tensor.bytes - at, step));
}

} // namespace braid
