//===- api/ranks/check_tensors.cpp - checks a caller's tensors against a program --------------===//

#include "api/ranks/check_tensors.h"
#include "ir/failure.h"
#include "ir/type.h"

#include <fmt/ranges.h>

#include <utility>

namespace braid {
namespace {

std::string typeText(DType dtype, std::span<const int64_t> shape) {
  return fmt::format("{}[{}]", name(dtype).str(), fmt::join(shape, ", "));
}

/// Describes the difference. Compares types and numbers of axes first, since they are often wrong.
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

/// A tensor with its name in messages.
struct Named {
  const char *kind;
  size_t number;
  const TensorSpec &spec;
  const Tensor &tensor;

  std::string what() const { return fmt::format("{} {} (%{})", kind, number, spec.name); }
  int64_t bytes() const { return *byteCount(spec.dtype, spec.shape); }
  uintptr_t begin() const { return reinterpret_cast<uintptr_t>(tensor.data); }
};

Status checkNamed(const Named &each, Device &device) {
  const auto &[kind, number, spec, tensor] = each;
  if (std::string wanted = differenceOf(spec, tensor); !wanted.empty())
    return badInput("{}: expected {}, because it is {}; got {}", each.what(), wanted,
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

/// The memory of a non-empty tensor.
struct Used {
  Named tensor;
  int64_t rank;
  bool isOutput;
  uintptr_t begin, end;
};

Status checkKind(const char *kind, bool areOutputs, std::span<const TensorSpec> specs,
                 std::span<const Tensor> tensors, const GivenTensors &given,
                 std::vector<Used> &used) {
  if (specs.size() != tensors.size())
    return badInput("expected {} {}{}, got {}", specs.size(), kind, specs.size() == 1 ? "" : "s",
                    tensors.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    const Named named{kind, i, specs[i], tensors[i]};
    BRAID_TRY(checkNamed(named, *given.device));
    const auto bytes = static_cast<uintptr_t>(named.bytes());
    if (bytes > 0)
      used.push_back({named, given.rank, areOutputs, named.begin(), named.begin() + bytes});
  }
  return Status::ok();
}

/// Compares each output with every tensor: for a few ranks, sorting would take longer.
std::pair<const Used *, const Used *> findOverlap(llvm::ArrayRef<Used> all) {
  for (const Used &output : all)
    for (const Used &other : all)
      if (output.isOutput && &other != &output && output.begin < other.end &&
          other.begin < output.end)
        return {&output, &other};
  return {};
}

} // namespace

Status checkTensor(const char *kind, size_t number, const TensorSpec &spec, const Tensor &tensor,
                   Device &device) {
  return checkNamed({kind, number, spec, tensor}, device);
}

Status checkTensors(std::span<const TensorSpec> inputSpecs, std::span<const TensorSpec> outputSpecs,
                    llvm::ArrayRef<GivenTensors> ranks) {
  auto atRank = [&](int64_t rank, const Status &status) {
    return status.isOk() || ranks.size() == 1 ? status
                                              : status.annotated(fmt::format("rank {}", rank));
  };
  std::vector<Used> used;
  for (const GivenTensors &given : ranks) {
    BRAID_TRY(atRank(given.rank, checkKind("input", false, inputSpecs, given.inputs, given, used)));
    BRAID_TRY(
        atRank(given.rank, checkKind("output", true, outputSpecs, given.outputs, given, used)));
  }
  const auto [output, other] = findOverlap(used);
  if (!output)
    return Status::ok();
  const std::string whose =
      other->rank == output->rank ? "" : fmt::format(" of rank {}", other->rank);
  return atRank(output->rank, badInput("{}: expected memory of its own, got some of {}{}",
                                       output->tensor.what(), other->tensor.what(), whose));
}

} // namespace braid
