//===- api/operation.cpp - the operations of the benchmark ------------------------------------===//

#include "api/operation.h"

#include "api/gather_bench.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace braid {

llvm::ArrayRef<Operation> operations() {
  static const std::vector<Operation> all = {gatherMatmul()};
  return all;
}

RowKind Operation::kindOf(llvm::StringRef row) const {
  const llvm::StringRef what = row.split(';').first;
  for (const std::vector<RowType> *types : {&rows, &rivals}) {
    auto found = llvm::find_if(*types, [&](const RowType &type) { return type.name == what; });
    if (found != types->end())
      return found->kind;
  }
  return scheduleFromName(what) == Schedule::None ? RowKind::Sequential : RowKind::Overlapped;
}

std::string Operation::title(const BenchShape &shape) const {
  return hasShapes ? fmt::format("{} x {} x {}", shape.m, shape.n, shape.k) : name;
}

} // namespace braid
