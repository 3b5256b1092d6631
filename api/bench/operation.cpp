//===- api/bench/operation.cpp - an operation of the benchmark --------------------------------===//

#include "api/bench/operation.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace braid {

RowKind Operation::kindOf(llvm::StringRef row) const {
  const llvm::StringRef what = row.split(';').first;
  for (const std::vector<RowType> *types : {&rows, &rivals}) {
    auto found = llvm::find_if(*types, [&](const RowType &type) { return type.name == what; });
    if (found != types->end())
      return found->kind;
  }
  return RowKind::Overlapped;
}

std::string Operation::title(const BenchShape &shape) const {
  return hasShapes ? fmt::format("{} x {} x {}", shape.m, shape.n, shape.k) : name;
}

} // namespace braid
