//===- api/bench/operation.h - the operations of the benchmark --------------------------------===//
#pragma once

#include "ir/type.h"

#include "llvm/ADT/ArrayRef.h"

#include <array>
#include <string>
#include <vector>

namespace braid {

struct BenchShape {
  int64_t m = 0, n = 0, k = 0;
  bool operator==(const BenchShape &) const = default;
};

/// A fusion that is made for a shape.
struct Operation {
  std::string name;                   ///< the subcommand
  std::string summary, help;          ///< a line, and what its shapes mean
  std::array<std::string, 3> extents; ///< help: what m, n and k are
  const char *text;                   ///< the fusion, with {D}, {m}, {n}, {k}, {rows} and {T}
  std::vector<std::string> standard;  ///< the rows that are timed unless others are named

  std::string fusion(const BenchShape &shape, DType type, int64_t ranks) const;
};

/// All of them. They live as long as the program.
llvm::ArrayRef<Operation> operations();

} // namespace braid
