//===- api/ranks/arguments.cpp - the caller's tensors for one run on one rank -----------------===//

#include "api/ranks/arguments.h"

#include "ir/failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace braid {

Result<Arguments> Arguments::allocate(const Plan &plan, Device &device) {
  Arguments arguments(device, plan.inputs.size());
  for (const std::vector<uint32_t> *buffers : {&plan.inputs, &plan.outputs})
    for (uint32_t buffer : *buffers)
      BRAID_TRY(arguments.add(plan.buffers[buffer].bytes)
                    .annotated(fmt::format("the tensors of rank {}", plan.rank)));
  return arguments;
}

Status Arguments::add(int64_t bytes) {
  size_t rounded = (static_cast<size_t>(bytes) + 255) / 256 * 256;
  Tensor tensor{{}, nullptr, bytes};
  tensor.host.reset(std::aligned_alloc(256, std::max<size_t>(rounded, 256)));
  if (!tensor.host)
    return unsupported("cannot allocate {} bytes", bytes);
  tensor.device = tensor.host.get();
  if (!device_->sharesHostMemory())
    tensor.device = BRAID_TRY(device_->allocate(ArenaKind::Private, bytes));
  tensors_.push_back(std::move(tensor));
  return Status::ok();
}

RunArguments Arguments::addresses() const {
  RunArguments arguments;
  for (const Tensor &tensor : llvm::makeArrayRef(tensors_).take_front(inputs_))
    arguments.inputs.push_back(tensor.device);
  for (const Tensor &tensor : llvm::makeArrayRef(tensors_).drop_front(inputs_))
    arguments.outputs.push_back(tensor.device);
  return arguments;
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
  for (const Tensor &output : llvm::makeArrayRef(tensors_).drop_front(inputs_))
    device_->copy(0, {}, output.host.get(), output.device, output.bytes);
}

} // namespace braid
