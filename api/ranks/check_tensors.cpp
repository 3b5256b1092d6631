//===- api/ranks/check_tensors.cpp - checks a caller's tensors against a program --------------===//

#include "api/ranks/check_tensors.h"
#include "ir/counted.h"
#include "ir/failure.h"
#include "ir/type.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace braid {
namespace {

std::string typeText(DType dtype, std::span<const int64_t> shape) {
  return fmt::format("{}[{}]", name(dtype).str(), fmt::join(shape, ", "));
}

/// A tensor argument of a call.
struct Argument {
  bool isOutput;
  size_t number;
  const TensorSpec &spec;
  const Tensor &tensor;
  int64_t rank = 0;

  std::string what() const {
    return fmt::format("{} {} (%{})", isOutput ? "output" : "input", number, spec.name);
  }
  uintptr_t begin() const { return reinterpret_cast<uintptr_t>(tensor.data); }
  uintptr_t end() const {
    return begin() + static_cast<uintptr_t>(*byteCount(spec.dtype, spec.shape));
  }
  bool isEmpty() const { return begin() == end(); }
};

Status check(const Argument &argument, Device &device) {
  const TensorSpec &spec = argument.spec;
  const Tensor &tensor = argument.tensor;
  if (tensor.dtype != spec.dtype || !std::ranges::equal(tensor.shape, spec.shape))
    return badInput("{}: expected {}, got {}", argument.what(), typeText(spec.dtype, spec.shape),
                    typeText(tensor.dtype, tensor.shape));
  if (argument.isEmpty())
    return Status::ok();
  if (!tensor.data)
    return badInput("{}: expected {}, got null", argument.what(), typeText(spec.dtype, spec.shape));
  if (argument.begin() % static_cast<uintptr_t>(sizeOf(spec.dtype)) != 0)
    return badInput("{}: expected an address that is a multiple of {} bytes, got {}",
                    argument.what(), sizeOf(spec.dtype), tensor.data);
  return device.checkAddress(tensor.data).annotated(argument.what());
}

/// Checks a rank's inputs or outputs, and adds them to `all`.
Status add(bool areOutputs, std::span<const TensorSpec> specs, std::span<const Tensor> tensors,
           int64_t rank, Device &device, std::vector<Argument> &all) {
  if (specs.size() != tensors.size())
    return badInput("expected {}, got {}",
                    counted(int64_t(specs.size()), areOutputs ? "output" : "input"),
                    tensors.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    all.push_back({areOutputs, i, specs[i], tensors[i], rank});
    BRAID_TRY(check(all.back(), device));
  }
  return Status::ok();
}

/// Compares each output with every other tensor; for a few ranks, this is faster than sorting.
std::pair<const Argument *, const Argument *> findOverlap(llvm::ArrayRef<Argument> all) {
  for (const Argument &output : all)
    for (const Argument &other : all)
      if (output.isOutput && &other != &output && !output.isEmpty() && !other.isEmpty() &&
          output.begin() < other.end() && other.begin() < output.end())
        return {&output, &other};
  return {};
}

} // namespace

Status checkAddresses(const CompiledProgram &program, std::span<void *const> addresses,
                      Device &device) {
  for (bool areOutputs : {false, true}) {
    const auto specs = areOutputs ? program.outputs() : program.inputs();
    for (size_t i = 0; i < specs.size(); ++i)
      BRAID_TRY(check({areOutputs, i, specs[i], Tensor(addresses[i], specs[i])}, device));
    addresses = addresses.subspan(specs.size());
  }
  return Status::ok();
}

Status checkTensors(const CompiledProgram &program, std::span<const RankTensors> ranks,
                    Cluster &cluster) {
  auto atRank = [&](int64_t rank, const Status &status) {
    return ranks.size() == 1 ? status : status.annotated(fmt::format("rank {}", rank));
  };
  std::vector<Argument> all;
  int64_t rank = cluster.firstHosted();
  for (const RankTensors &given : ranks) {
    Device &device = cluster.device(rank);
    BRAID_TRY(atRank(rank, add(false, program.inputs(), given.inputs, rank, device, all)));
    BRAID_TRY(atRank(rank, add(true, program.outputs(), given.outputs, rank, device, all)));
    ++rank;
  }
  const auto [output, other] = findOverlap(all);
  if (!output)
    return Status::ok();
  const std::string whose =
      other->rank == output->rank ? "" : fmt::format(" of rank {}", other->rank);
  return atRank(
      output->rank,
      badInput("{}: expected memory that no other tensor uses, got memory that overlaps {}{}",
               output->what(), other->what(), whose));
}

} // namespace braid
