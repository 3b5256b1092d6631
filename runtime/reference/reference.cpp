//===- runtime/reference/reference.cpp - computes the expected result of a fusion -------------===//
#include "runtime/reference/reference.h"

#include "runtime/reference/reference_codec.h"
#include "runtime/reference/reference_evaluator.h"

#include <fmt/format.h>

#include <cmath>

namespace braid {

using namespace reference;

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

Reference::Reference(const Fusion &fusion, uint64_t seed, const std::string &fileName)
    : graph_(fusion, fileName), inputs_(graph_, seed) {}

void Reference::fillInput(size_t index, int64_t rank, uint32_t iteration, void *data) const {
  inputs_.patterns[index].fill(iteration, rank, graph_.tensors[graph_.inputs[index]].dtype, data);
}

Status Reference::compare(size_t index, int64_t rank, uint32_t iteration, const void *data) const {
  const Tensor &tensor = graph_.tensors[graph_.outputs[index]];
  if (!inputs_.misfit.empty())
    return Status(StatusCode::Unsupported, inputs_.misfit);
  Differences differences;
  std::vector<double> got;
  evaluate(graph_, inputs_, graph_.outputs[index], rank, iteration,
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
  for (size_t output : graph_.outputs) {
    const Tensor &tensor = graph_.tensors[output];
    const int64_t all = tensor.placement.localElements();
    const std::optional<UnevenRows> &uneven = tensor.uneven;
    const bool isBlock = uneven && tensor.deviceAxis == uneven->axis - 1;
    elements += !uneven   ? all
                : isBlock ? all / uneven->rows * uneven->rowsOf(rank)
                          : all / (uneven->blocks * uneven->rows) * uneven->total;
  }
  return elements;
}

} // namespace braid
