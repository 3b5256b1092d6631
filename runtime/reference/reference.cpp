//===- runtime/reference/reference.cpp - computes the expected result of a fusion -------------===//
#include "runtime/reference/reference.h"

#include "runtime/reference/reference_codec.h"
#include "runtime/reference/reference_evaluator.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <fmt/format.h>

#include <cmath>

namespace braid {

using namespace reference;

class Reference::Impl {
public:
  Impl(const Fusion &fusion, uint64_t seedOfInputs, const std::string &fileName)
      : graph(fusion, fileName), inputs(graph, seedOfInputs), seed(seedOfInputs) {}

  const Tensor &input(size_t index) const { return graph.tensors[graph.inputs[index]]; }
  const Tensor &output(size_t index) const { return graph.tensors[graph.outputs[index]]; }
  std::string widerType(DType dtype) const;

  Graph graph;
  Inputs inputs;
  uint64_t seed;
};

namespace {

struct Differences {
  int64_t count = 0;
  int64_t firstAt = 0; ///< index of the local element
  double got = 0, expected = 0;

  void note(int64_t at, double gotHere, double expectedHere) {
    if (count++ == 0) {
      firstAt = at;
      got = gotHere;
      expected = expectedHere;
    }
  }
};

std::string number(double value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

/// Formats "%C[3, 17, 0]". `at` is the index of the local element.
std::string elementName(const Tensor &tensor, int64_t at) {
  std::string indices;
  for (size_t axis = tensor.axes(); axis-- > 0;) {
    const int64_t extent = axis == tensor.deviceAxis ? 1 : tensor.global[axis];
    indices = fmt::format("{}{}{}", axis ? ", " : "", at % extent, indices);
    at /= extent;
  }
  return fmt::format("%{}[{}]", tensor.name, indices);
}

} // namespace

/// Returns "; f32 in place of bf16 would do" if that type makes all values exact.
std::string Reference::Impl::widerType(DType dtype) const {
  for (DType wider : {DType::F32, DType::F64}) {
    Graph changed = graph;
    for (Tensor &tensor : changed.tensors)
      tensor.dtype = tensor.dtype == dtype ? wider : tensor.dtype;
    for (Gemm &gemm : changed.gemms)
      gemm.partial = gemm.partial == dtype ? wider : gemm.partial;
    const bool isLegal = llvm::all_of(changed.gemms, [&](const Gemm &gemm) {
      return isPartialType(gemm.partial, changed.tensors[gemm.result].dtype);
    });
    if (sizeOf(wider) > sizeOf(dtype) && isLegal && Inputs(changed, seed).misfit.empty())
      return fmt::format("; {} in place of {} would do", name(wider), name(dtype));
  }
  return "";
}

Reference::Reference(const Fusion &fusion, uint64_t seed, const std::string &fileName)
    : impl_(std::make_unique<Impl>(fusion, seed, fileName)) {}

Reference::~Reference() = default;

void Reference::fillInput(size_t index, int64_t rank, uint32_t iteration, void *data) const {
  impl_->inputs.patterns[index].fill(iteration, rank, impl_->input(index).dtype, data);
}

Status Reference::compare(size_t index, int64_t rank, uint32_t iteration, const void *data) const {
  const Tensor &tensor = impl_->output(index);
  if (!impl_->inputs.misfit.empty())
    return Status(StatusCode::Unsupported, impl_->inputs.misfit + impl_->widerType(tensor.dtype));
  Differences differences;
  std::vector<double> got;
  evaluate(impl_->graph, impl_->inputs, impl_->graph.outputs[index], rank, iteration,
           [&](int64_t local, int64_t global, llvm::MutableArrayRef<double> expected) {
             got.resize(expected.size());
             load(tensor.dtype, data, local, got);
             for (size_t i = 0; i < got.size(); ++i) {
               const int64_t at = static_cast<int64_t>(i);
               if (!tensor.exists(global + at))
                 expected[i] = std::nan(""); // not written by anyone
               if (got[i] != expected[i] && !(std::isnan(got[i]) && std::isnan(expected[i])))
                 differences.note(local + at, got[i], expected[i]);
             }
           });
  if (differences.count == 0)
    return Status::ok();
  return Status(
      StatusCode::WrongResult,
      fmt::format("rank {}, iteration {}: {} is {}, expected {} ({} of {} elements differ)", rank,
                  iteration, elementName(tensor, differences.firstAt), number(differences.got),
                  number(differences.expected), differences.count,
                  tensor.placement.localElements()));
}

int64_t Reference::elementsOf(int64_t rank) const {
  int64_t elements = 0;
  for (size_t output : impl_->graph.outputs) {
    const Tensor &tensor = impl_->graph.tensors[output];
    const Placement &placement = tensor.placement;
    if (tensor.uneven)
      elements +=
          llvm::count_if(llvm::seq<int64_t>(0, placement.localElements()), [&](int64_t local) {
            return tensor.exists(placement.globalOf(rank, local));
          });
    else
      elements += placement.localElements();
  }
  return elements;
}

} // namespace braid
