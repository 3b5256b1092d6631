//===- runtime/reference/reference_evaluator.h - what a tensor's values should be -------------===//
#pragma once

#include "runtime/reference/reference_inputs.h"

namespace braid::reference {

/// Receives values of a tensor that are contiguous on the rank and in the whole tensor, from these
/// elements on.
using ValueSink =
    llvm::function_ref<void(int64_t local, int64_t global, llvm::MutableArrayRef<double>)>;

/// Computes a rank's part of a tensor in one iteration from the fusion's definition, in f64.
void evaluate(const Graph &graph, const Inputs &inputs, size_t tensor, int64_t rank,
              uint32_t iteration, ValueSink sink);

} // namespace braid::reference
