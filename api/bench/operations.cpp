//===- api/bench/operations.cpp - the table of operations -------------------------------------===//

#include "api/bench/gather_bench.h"
#include "api/bench/mlp_bench.h"
#include "api/bench/reduction_bench.h"

namespace braid {

llvm::ArrayRef<Operation> operations() {
  static const std::vector<Operation> all = {gatherMatmul(), matmulReduceScatter(),
                                             matmulAllReduce(), mlp()};
  return all;
}

} // namespace braid
