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
};

/// A fusion that can be instantiated for all shapes.
struct Operation {
  std::string name;                   ///< the subcommand
  std::string summary, help;          ///< a one-line summary; the meaning of the shapes
  std::array<std::string, 3> extents; ///< help texts for m, n and k
  const char *text;                   ///< with placeholders {D}, {m}, {n}, {k}, {rows} and {T}
  std::vector<std::string> standard;  ///< the rows timed by default

  std::string fusion(const BenchShape &shape, DType type, int64_t ranks) const;
};

/// Returns all operations. The array has static lifetime.
llvm::ArrayRef<Operation> operations();

} // namespace braid
