//===- api/ranks/arguments.cpp - the caller's tensors for one run on one rank -----------------===//

#include "api/ranks/arguments.h"

#include "ir/failure.h"
#include "runtime/numeric.h"
#include "runtime/split_mix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace braid {

Result<Arguments> Arguments::allocate(const Plan &plan, Device &device) {
  Arguments arguments(device);
  auto add = [&](uint32_t buffer, auto &addresses) {
    Result<void *> address = arguments.add(plan.buffers[buffer].bytes);
    if (address)
      addresses.push_back(*address);
    return address.status().annotated(fmt::format("the tensors of rank {}", plan.rank));
  };
  for (uint32_t buffer : plan.inputs)
    BRAID_TRY(add(buffer, arguments.addresses_.inputs));
  for (uint32_t buffer : plan.outputs)
    BRAID_TRY(add(buffer, arguments.addresses_.outputs));
  return arguments;
}

/// Allocates a tensor, and returns its device address.
Result<void *> Arguments::add(int64_t bytes) {
  size_t rounded = (static_cast<size_t>(bytes) + 255) / 256 * 256;
  Tensor tensor{{}, nullptr, bytes};
  tensor.host.reset(std::aligned_alloc(256, std::max<size_t>(rounded, 256)));
  if (!tensor.host)
    return unsupported("cannot allocate {} bytes", bytes);
  tensor.device = tensor.host.get();
  if (!device_->sharesHostMemory())
    tensor.device = BRAID_TRY(device_->allocate(ArenaKind::Private, bytes));
  tensors_.push_back(std::move(tensor));
  return tensors_.back().device;
}

void Arguments::upload() {
  if (device_->sharesHostMemory())
    return;
  for (const Tensor &tensor : tensors_)
    device_->copy(0, {}, tensor.device, tensor.host.get(), tensor.bytes);
}

void Arguments::download() {
  if (device_->sharesHostMemory())
    return;
  for (const Tensor &output : llvm::makeArrayRef(tensors_).drop_front(addresses_.inputs.size()))
    device_->copy(0, {}, output.host.get(), output.device, output.bytes);
}

void drawNumbers(DType dtype, void *data, int64_t count, uint64_t seed) {
  withElement(dtype, [&](auto element) {
    using Element = decltype(element);
    auto *numbers = static_cast<Element *>(data);
    uint64_t state = mixBits(seed);
    for (int64_t i = 0; i < count; ++i) {
      const auto drawn = static_cast<int64_t>(mixBits(state += kSplitMixStep));
      numbers[i] = narrow<Element>(static_cast<Accumulator<Element>>(double(drawn) * 0x1p-63));
    }
  });
}

} // namespace braid
