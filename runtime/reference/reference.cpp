//===- runtime/reference/reference.cpp - what a fusion's result should be ---------------------===//
#include "runtime/reference/reference.h"

#include "runtime/reference/reference_codec.h"
#include "runtime/reference/reference_evaluator.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <cmath>

namespace braid {

namespace reference {
namespace {

/// What a comparison found so far.
struct Differences {
  int64_t count = 0;
  int64_t firstAt = 0; ///< in local elements
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

/// "%C[3, 17, 0]", where `at` counts local elements.
std::string elementName(const Tensor &tensor, int64_t at) {
  std::string indices;
  for (size_t axis = tensor.local.size(); axis-- > 0;) {
    const int64_t extent = tensor.local[axis];
    indices = fmt::format("{}{}{}", axis ? ", " : "", at % extent, indices);
    at /= extent;
  }
  return fmt::format("%{}[{}]", tensor.name, indices);
}

/// Calls `fn(local, global, count)` for pieces that cover a rank's part in order; each is small
/// and contiguous in both.
template <class Fn> Status forEachPiece(const Placement &placement, int64_t rank, Fn &&fn) {
  constexpr int64_t kPiece = 4096;
  const int64_t device = placement.devices == 1 ? 0 : rank;
  for (int64_t o = 0; o < placement.outer; ++o)
    for (int64_t i = 0; i < placement.inner; i += kPiece) {
      const int64_t count = std::min(kPiece, placement.inner - i);
      const int64_t global = (o * placement.devices + device) * placement.inner + i;
      BRAID_TRY(fn(o * placement.inner + i, global, count));
    }
  return Status::ok();
}

} // namespace
} // namespace reference

using namespace reference;

class Reference::Impl {
public:
  Impl(Graph made, uint64_t drawnFrom)
      : graph(std::move(made)), seed(drawnFrom), inputs(graph, seed) {}

  /// Calls `fn` as forEachPiece() does, and with the values of a rank's output, until it fails.
  /// Fails itself where a value cannot be computed exactly.
  template <class Fn>
  Status forEachValue(size_t index, int64_t rank, uint32_t iteration, Fn &&fn) const;
  /// "; f32 in place of bf16 would do", if all of a rank's outputs can be computed exactly so.
  std::string widerType(DType dtype, int64_t rank, uint32_t iteration) const;

  const Tensor &input(size_t index) const { return graph.tensors[graph.inputs[index]]; }
  const Tensor &output(size_t index) const { return graph.tensors[graph.outputs[index]]; }

  Graph graph;
  uint64_t seed;
  Inputs inputs;
};

Reference::Reference(const Fusion &fusion, uint64_t seed, const std::string &fileName)
    : impl_(std::make_unique<Impl>(Graph(fusion, fileName), seed)) {}

Reference::~Reference() = default;

size_t Reference::inputCount() const { return impl_->graph.inputs.size(); }
size_t Reference::outputCount() const { return impl_->graph.outputs.size(); }

int64_t Reference::inputBytes(size_t index) const {
  const Tensor &tensor = impl_->input(index);
  return tensor.placement.localElements() * sizeOf(tensor.dtype);
}

int64_t Reference::outputBytes(size_t index) const {
  const Tensor &tensor = impl_->output(index);
  return tensor.placement.localElements() * sizeOf(tensor.dtype);
}

void Reference::fillInput(size_t index, int64_t rank, uint32_t iteration, void *data) const {
  impl_->inputs[index].fill(iteration, rank, impl_->input(index).dtype, data);
}

void Reference::poisonOutput(size_t index, void *data) const {
  const Tensor &tensor = impl_->output(index);
  for (int64_t i = 0; i < tensor.placement.localElements(); ++i)
    store(tensor.dtype, nanBits(tensor.dtype), data, i);
}

template <class Fn>
Status Reference::Impl::forEachValue(size_t index, int64_t rank, uint32_t iteration,
                                     Fn &&fn) const {
  Evaluator evaluator(graph, inputs, iteration);
  std::vector<double> values;
  return forEachPiece(output(index).placement, rank,
                      [&](int64_t local, int64_t global, int64_t count) -> Status {
                        values.resize(static_cast<size_t>(count));
                        BRAID_TRY(evaluator.read(graph.outputs[index], global, values));
                        fn(local, global, values);
                        return Status::ok();
                      });
}

std::string Reference::Impl::widerType(DType dtype, int64_t rank, uint32_t iteration) const {
  for (DType wider : {DType::F32, DType::F64}) {
    if (sizeOf(wider) <= sizeOf(dtype))
      continue;
    Graph changed = graph;
    for (Tensor &tensor : changed.tensors)
      tensor.dtype = tensor.dtype == dtype ? wider : tensor.dtype;
    for (Gemm &gemm : changed.gemms)
      gemm.partial = gemm.partial == dtype ? wider : gemm.partial;
    const bool isLegal = llvm::all_of(changed.gemms, [&](const Gemm &gemm) {
      return isPartialType(gemm.partial, changed.tensors[gemm.result].dtype);
    });
    if (!isLegal)
      continue;
    const Impl instead(std::move(changed), seed);
    bool isExact = true;
    for (size_t i = 0; isExact && i < graph.outputs.size(); ++i)
      isExact = instead.forEachValue(i, rank, iteration, [](auto &&...) {}).isOk();
    if (isExact)
      return fmt::format("; {} in place of {} would do", std::string_view(name(wider)),
                         std::string_view(name(dtype)));
  }
  return "";
}

Status Reference::compare(size_t index, int64_t rank, uint32_t iteration, const void *data) const {
  const Tensor &tensor = impl_->output(index);
  Differences differences;
  std::vector<double> got;
  const Status computed = impl_->forEachValue(
      index, rank, iteration,
      [&](int64_t local, int64_t global, llvm::MutableArrayRef<double> expected) {
        got.resize(expected.size());
        load(tensor.dtype, data, local, got);
        for (size_t i = 0; i < got.size(); ++i) {
          if (!tensor.exists(global + static_cast<int64_t>(i)))
            expected[i] = std::nan(""); // nobody has written it
          const bool isEqual = std::isnan(expected[i]) ? std::isnan(got[i]) : got[i] == expected[i];
          if (!isEqual)
            differences.note(local + static_cast<int64_t>(i), got[i], expected[i]);
        }
      });
  if (!computed.isOk())
    return Status(computed.code(),
                  computed.message() + impl_->widerType(tensor.dtype, rank, iteration));
  if (differences.count == 0)
    return Status::ok();
  return Status(
      StatusCode::WrongResult,
      fmt::format("rank {}, iteration {}: {} is {}, expected {} ({} of {} elements differ)", rank,
                  iteration, elementName(tensor, differences.firstAt), number(differences.got),
                  number(differences.expected), differences.count,
                  tensor.placement.localElements()));
}

int64_t Reference::elementsPerRank() const {
  int64_t elements = 0;
  for (size_t output : impl_->graph.outputs)
    elements += impl_->graph.tensors[output].placement.localElements();
  return elements;
}

} // namespace braid
