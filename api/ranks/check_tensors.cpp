//===- api/ranks/check_tensors.cpp - are a caller's tensors those that a program wants --------===//

#include "api/ranks/check_tensors.h"
#include "ir/failure.h"
#include "ir/type.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace braid {
namespace {

std::string typeText(DType dtype, std::span<const int64_t> shape) {
  return fmt::format("{}[{}]", name(dtype).str(), fmt::join(shape, ", "));
}

/// What differs is named first: types and numbers of axes are often confused.
std::string differenceOf(const TensorSpec &spec, const Tensor &tensor) {
  if (tensor.dtype != spec.dtype)
    return "elements of type " + name(spec.dtype).str();
  if (tensor.shape.size() != spec.shape.size())
    return fmt::format("{} axes", spec.shape.size());
  for (size_t axis = 0; axis < spec.shape.size(); ++axis)
    if (tensor.shape[axis] != spec.shape[axis])
      return fmt::format("extent {} of axis {}", spec.shape[axis], axis);
  return "";
}

/// A tensor with what messages call it.
struct Named {
  const char *kind;
  size_t number;
  const TensorSpec &spec;
  const Tensor &tensor;

  std::string what() const { return fmt::format("{} {} (%{})", kind, number, spec.name); }
  int64_t bytes() const { return *byteCount(spec.dtype, spec.shape); }
  uintptr_t begin() const { return reinterpret_cast<uintptr_t>(tensor.data); }
  uintptr_t end() const { return begin() + static_cast<uintptr_t>(bytes()); }
};

Status checkNamed(const Named &each, Device &device) {
  const auto &[kind, number, spec, tensor] = each;
  if (std::string wanted = differenceOf(spec, tensor); !wanted.empty())
    return badInput("{}: expected {}, for it is {}; got {}", each.what(), wanted,
                    typeText(spec.dtype, spec.shape), typeText(tensor.dtype, tensor.shape));
  if (each.bytes() == 0)
    return Status::ok();
  if (!tensor.data)
    return badInput("{}: expected {}, got null", each.what(), typeText(spec.dtype, spec.shape));
  if (each.begin() % static_cast<uintptr_t>(sizeOf(spec.dtype)) != 0)
    return badInput("{}: expected an address that is a multiple of {} bytes, got {}", each.what(),
                    sizeOf(spec.dtype), tensor.data);
  const Status status = device.checkAddress(tensor.data);
  return status.isOk() ? status : status.annotated(each.what());
}

Status collect(const char *kind, std::span<const TensorSpec> specs, std::span<const Tensor> tensors,
               std::vector<Named> &all) {
  if (specs.size() != tensors.size())
    return badInput("expected {} {}{}, got {}", specs.size(), kind, specs.size() == 1 ? "" : "s",
                    tensors.size());
  for (size_t i = 0; i < specs.size(); ++i)
    all.push_back({kind, i, specs[i], tensors[i]});
  return Status::ok();
}

} // namespace

Status checkTensor(const char *kind, size_t number, const TensorSpec &spec, const Tensor &tensor,
                   Device &device) {
  return checkNamed({kind, number, spec, tensor}, device);
}

Status checkTensors(std::span<const TensorSpec> inputSpecs, std::span<const Tensor> inputs,
                    std::span<const TensorSpec> outputSpecs, std::span<const Tensor> outputs,
                    Device &device) {
  std::vector<Named> all;
  BRAID_TRY(collect("input", inputSpecs, inputs, all));
  BRAID_TRY(collect("output", outputSpecs, outputs, all));
  for (const Named &each : all)
    BRAID_TRY(checkNamed(each, device));
  for (size_t output = inputs.size(); output < all.size(); ++output)
    for (size_t other = 0; other < output; ++other)
      if (all[output].begin() < all[other].end() && all[other].begin() < all[output].end())
        return badInput("{}: expected memory of its own, got some of {}", all[output].what(),
                        all[other].what());
  return Status::ok();
}

} // namespace braid
