//===- api/simulate/machines.h - machines by name, or by their files --------------------------===//
#pragma once

#include "runtime/simulate/cost_model.h"

namespace braid {

/// A machine that comes with Braid.
struct ShippedMachine {
  std::string name;
  const char *file; ///< its cost model as JSON
};
llvm::ArrayRef<ShippedMachine> shippedMachines();

/// Returns the cost model of the machine with that name that comes with Braid, or else of the file
/// with that name. Returns BadInput if there is neither, or the file is not a cost model.
Result<CostModel> findMachine(const std::string &nameOrFile);

} // namespace braid
