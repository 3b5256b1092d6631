//===- runtime/reference/reference_evaluator.h - computes the expected values of a tensor -----===//
#pragma once

#include "runtime/reference/reference_inputs.h"

namespace braid::reference {

/// Receives values that are contiguous both on the rank and in the whole tensor, starting at the
/// local and the global element.
using ValueSink =
    llvm::function_ref<void(int64_t local, int64_t global, llvm::MutableArrayRef<double>)>;

/// Computes a rank's part of a tensor in one iteration from the fusion's definition, in f64.
void evaluate(const Graph &graph, const Inputs &inputs, size_t tensor, int64_t rank,
              uint32_t iteration, ValueSink sink);

} // namespace braid::reference
