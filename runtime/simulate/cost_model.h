//===- runtime/simulate/cost_model.h - the costs of a machine's operations --------------------===//
//
// The simulator predicts the duration of a Plan from these numbers. api/calibrate/calibrate.h
// describes how each number is measured:
//
//   run      overhead outside the commands: before the first one starts on all ranks, and from the
//            end of the last one until the host observes it
//   issue    host time per command in an eager run; 0 in a graph
//   signal   time until the flag is set on the peer
//   copy     a fixed time plus bytes / rate; copies over the same link share its rate evenly.
//            A sum or a pointwise operation costs as much as a local copy of half the bytes that it
//            reads and writes
//   GEMM     a table by shape, interpolated linearly in the number of rows
//   message  a group or a collective on one host takes a fixed time plus bytes / rate once all
//            participating ranks have reached it
//   network  a latency plus bytes / rate; the messages of a host or rank share its rate evenly
//
// Times are in microseconds, rates in bytes per microsecond (1000 bytes/us = 1 GB/s).
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"
#include "runtime/execute/transfer_mode.h"
#include "runtime/plan/plan.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace braid {

/// Eager: the host issues commands one by one. Graph: the device replays all commands at once.
enum class LaunchMode : uint8_t { Eager, Graph };
llvm::StringRef name(LaunchMode launchMode);
/// Formats `transferMode`, for example "copies=kernel, signals=default".
std::string str(TransferMode transferMode);

struct CopyCost {
  double fixedUs = 0;
  double bytesPerUs = 1;

  double us(double bytes) const { return fixedUs + bytes / bytesPerUs; }
};

/// The costs of all operations except GEMMs, in one launch mode and one transfer mode.
struct OperationCosts {
  LaunchMode launchMode = LaunchMode::Eager;
  TransferMode transferMode = {};
  double runUs = 0, issueUs = 0, signalUs = 0;
  CopyCost local;        ///< within a rank's memory; also for sums and pointwise operations
  CopyCost pull;         ///< from a peer
  CopyCost push;         ///< to a peer
  CopyCost message = {}; ///< a group or a collective
};

/// The time of a GEMM, measured over a series of GEMMs on one stream.
struct GemmCost {
  DType dtype = DType::BF16;
  bool transposeB = false;
  int64_t m = 0, n = 0, k = 0;
  double us = 0;
  /// The result's type if it differs from `dtype`, as in PlanMatmul.
  std::optional<DType> partial = {};

  DType resultType() const { return partial.value_or(dtype); }
  /// Returns true if `other` (PlanMatmul or GemmCost) has the same types, columns and depth.
  template <class Shape> bool isOfSameColumn(const Shape &other) const {
    return dtype == other.dtype && resultType() == other.resultType() &&
           transposeB == other.transposeB && n == other.n && k == other.k;
  }
  template <class Shape> bool isOfSameShape(const Shape &other) const {
    return isOfSameColumn(other) && m == other.m;
  }
};

/// Returns the number of arithmetic operations in a PlanMatmul or a GemmCost.
template <class Gemm> double operationsOf(const Gemm &gemm) {
  return 2.0 * double(gemm.m) * double(gemm.n) * double(gemm.k);
}

/// The cost of messages between hosts. The defaults assume one 400 Gbit/s network card per host.
struct NetworkCost {
  double latencyUs = 10;
  double bytesPerUs = 50000;     ///< per host and direction
  double rankBytesPerUs = 50000; ///< per rank and direction
};

struct CostModel {
  std::string machine; ///< a descriptive name
  int64_t ranks = 1;   ///< number of ranks in the measurement
  std::vector<OperationCosts> operations;
  std::vector<GemmCost> gemms;
  NetworkCost network;

  /// Returns null if these modes were not measured.
  const OperationCosts *find(LaunchMode launchMode, TransferMode transferMode) const;
  /// Returns null unless exactly this shape was measured.
  const GemmCost *find(const PlanMatmul &shape) const;
  /// Adds an entry, or replaces the one with the same modes.
  void add(const OperationCosts &costs);

  /// Returns the time of a GEMM, measured or estimated. Interpolates linearly in the number of rows
  /// between entries with the same types, columns and depth; if there are none, uses entries with
  /// another result type. Below the smallest entry, returns that entry's time; above the largest,
  /// scales that entry's time in proportion to the rows. If no entry matches, assumes the flop rate
  /// of the entry of this type that is nearest in size. An addend costs the time to move its bytes;
  /// a GEMM with no rows costs nothing. Returns Unsupported if no GEMM of this type was measured.
  Result<double> gemmUs(const PlanMatmul &shape) const;

  /// Encodes the model as JSON, from which decode() restores it exactly.
  std::string encode() const;
  /// Returns BadInput if `text` is malformed; the message names the location of the error.
  static Result<CostModel> decode(llvm::StringRef text);
};

} // namespace braid
