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

/// Returns the cost model of the built-in machine `nameOrFile`, or else reads it from the file with
/// this path. Returns BadInput if neither exists, or if the file is not a cost model.
Result<CostModel> findMachine(const std::string &nameOrFile);

} // namespace braid
