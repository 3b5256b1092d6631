//===- api/simulate/machines.h - finds machine models by name or file -------------------------===//
#pragma once

#include "runtime/simulate/cost_model.h"

namespace braid {

/// A built-in machine model.
struct ShippedMachine {
  std::string name;
  const char *file; ///< its cost model as JSON
};
llvm::ArrayRef<ShippedMachine> shippedMachines();

/// The contents of the files in machines/, which the build embeds (cmake/BraidEmbed.cmake).
extern const char *const kH200x4,
    *const kH200x2, *const kH100x2, *const kDgxH100, *const kGb200Nvl72, *const kDgxH100x128;

/// Returns the cost model of the built-in machine `nameOrFile`, or else reads it from the file with
/// this path. Returns BadInput if neither exists, or if the file is not a cost model.
Result<CostModel> findMachine(const std::string &nameOrFile);

} // namespace braid
