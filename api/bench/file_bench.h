//===- api/bench/file_bench.h - a FILE, as an operation of the benchmark ----------------------===//
//
// A fusion is timed as it is lowered by the flags, one part after the other, and in whatever other
// way is asked for; a program as it is. Their GEMMs alone and their transfers alone are made from
// their Plans: a fusion's from the lowering that does one part after the other, which has the
// largest ones.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/bench/operation.h"
#include "runtime/plan/plan.h"

namespace braid {

/// A source that was compiled with `given`, and the Plans of that. `isAuto`: its schedule is to be
/// chosen, so that no row is the lowering that was asked for.
struct BenchFile {
  const Compiled &compiled;
  const CompileOptions &given;
  llvm::ArrayRef<Plan> plans;
  bool isAuto = false;
};

/// Keeps nothing of `file`.
Operation fileOperation(const BenchFile &file);
/// The type of its GEMMs, which are of one type; bf16 if it has none.
DType dtypeOf(const BenchFile &file);

} // namespace braid
