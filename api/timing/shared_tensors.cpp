//===- api/timing/shared_tensors.cpp - the tensors shared by all timed Plans ------------------===//

#include "api/timing/shared_tensors.h"

#include "ir/failure.h"
#include "runtime/numeric.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace braid {
namespace {

/// The size of the random tile, which is fast to generate but larger than the tiles of a GEMM.
constexpr int64_t kTileElements = int64_t(1) << 20;

/// Each input on each rank has its own seed, because real layers do not multiply equal operands.
uint64_t seedOf(int64_t input, int64_t rank) {
  constexpr int64_t kRanks = int64_t(1) << 32;
  return 1 + static_cast<uint64_t>(input * kRanks + rank);
}

/// Returns random numbers in [-1, 1) for `seed`. The numbers are random because a GEMM's time
/// depends on its power draw, which depends on the operands' values.
std::vector<char> randomTile(DType dtype, size_t elements, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<char> tile(elements * static_cast<size_t>(sizeOf(dtype)));
  for (size_t i = 0; i < elements; ++i) {
    const float value = static_cast<float>(random() >> 40) * 0x1p-23F - 1;
    withElement(dtype, [&](auto element) {
      element = narrow<decltype(element)>(value);
      std::memcpy(tile.data() + i * sizeof element, &element, sizeof element);
    });
  }
  return tile;
}

} // namespace

SharedTensors::~SharedTensors() {
  for (void *each : allocated_)
    device_.release(each);
}

/// If `plan` has no GEMMs, inputs that have been filled retain their values.
Result<std::vector<const void *>> SharedTensors::inputsOf(const Plan &plan) {
  inputs_.resize(std::max(inputs_.size(), plan.inputs.size()));
  std::vector<const void *> addresses;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    Tensor &tensor = inputs_[i];
    BRAID_TRY(grow(tensor, plan.buffers[plan.inputs[i]].bytes));
    const DType dtype = !plan.matmuls.empty() ? plan.matmuls.front().dtype
                                              : tensor.filledWith.value_or(DType::BF16);
    if (tensor.filledWith != dtype)
      BRAID_TRY(fill(tensor, dtype));
    addresses.push_back(tensor.address);
  }
  return addresses;
}

Result<std::vector<void *>> SharedTensors::outputsOf(const Plan &plan) {
  outputs_.resize(std::max(outputs_.size(), plan.outputs.size()));
  std::vector<void *> addresses;
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    BRAID_TRY(grow(outputs_[i], plan.buffers[plan.outputs[i]].bytes));
    addresses.push_back(outputs_[i].address);
  }
  return addresses;
}

/// Replaced allocations are freed only by the destructor, because prepared Plans may still use
/// them. A tensor that grows at least doubles in size.
Status SharedTensors::grow(Tensor &tensor, int64_t bytes) {
  if (tensor.address && bytes <= tensor.bytes)
    return Status::ok();
  bytes = std::max(bytes, 2 * tensor.bytes);
  tensor = {BRAID_TRY(device_.allocate(ArenaKind::Private, bytes)), bytes};
  allocated_.push_back(tensor.address);
  return Status::ok();
}

/// Copies a random tile from the host, then repeatedly doubles the filled part on the device.
Status SharedTensors::fill(Tensor &tensor, DType dtype) {
  const int64_t elements = std::min(kTileElements, tensor.bytes / sizeOf(dtype) + 1);
  const std::vector<char> tile =
      randomTile(dtype, static_cast<size_t>(elements), seedOf(&tensor - inputs_.data(), rank_));
  char *memory = static_cast<char *>(tensor.address);
  int64_t filled = std::min(tensor.bytes, static_cast<int64_t>(tile.size()));
  device_.copy(0, {}, memory, tile.data(), filled);
  for (; filled < tensor.bytes; filled *= 2)
    device_.copy(0, {}, memory + filled, memory, std::min(filled, tensor.bytes - filled));
  tensor.filledWith = dtype;
  return device_.synchronize(); // `tile` must outlive the copy
}

} // namespace braid
