//===- runtime/simulate/cost_model.h - the costs of a machine's operations --------------------===//
//
// The simulator predicts the duration of a Plan from these numbers. api/calibrate/calibrate.h
// describes how each is measured:
//
//   run      time outside the commands: until the first one starts on all ranks, and until the host
//            observes the end; gapUs is the time between two consecutive runs
//   issue    host time per command in an eager run; 0 in a graph
//   signal   the flag is set on the peer after signalUs
//   copy     a fixed time plus bytes at a rate; copies over one link share it evenly. A sum or a
//            pointwise operation costs as much as a local copy of half the bytes that it reads and
//            writes
//   GEMM     a table by shape, interpolated linearly in the rows
//   message  a group or a collective takes a measured time once all its ranks have reached it
//   network  a latency, and a rate that all messages of a host, or of a rank, share evenly
//
// Times are microseconds, rates bytes per microsecond (1000 of them are 1 GB/s).
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
/// Formats a mode, for example "copies=kernel, signals=default".
std::string str(TransferMode transferMode);

struct CopyCost {
  double fixedUs = 0;
  double bytesPerUs = 1;
};

/// The costs of all operations except GEMMs and messages, in one launch mode and one transfer mode.
struct OperationCosts {
  LaunchMode launchMode = LaunchMode::Eager;
  TransferMode transferMode = {};
  double runUs = 0, gapUs = 0, issueUs = 0, signalUs = 0;
  CopyCost local; ///< within a rank's memory; also for sums and pointwise operations
  CopyCost pull;  ///< from a peer
  CopyCost push;  ///< to a peer
};

/// The cost of a GEMM, measured in a series on one stream.
struct GemmCost {
  DType dtype = DType::BF16;
  bool transposeB = false;
  int64_t m = 0, n = 0, k = 0;
  double us = 0;
  /// The fraction of the machine that it uses, in (0, 1]. Two concurrent GEMMs of utilisation 0.5
  /// take no longer than one.
  double utilisation = 1;
  /// The result's type if it differs from `dtype`, as in PlanMatmul.
  std::optional<DType> partial = {};

  DType resultType() const { return partial.value_or(dtype); }
  /// Returns true if `other`, a PlanMatmul or a GemmCost, has the same types, columns and depth.
  template <class Shape> bool isOfSameColumn(const Shape &other) const {
    return dtype == other.dtype && resultType() == other.resultType() &&
           transposeB == other.transposeB && n == other.n && k == other.k;
  }
  template <class Shape> bool isOfSameShape(const Shape &other) const {
    return isOfSameColumn(other) && m == other.m;
  }
};

/// Returns the number of arithmetic operations of a PlanMatmul or a GemmCost.
template <class Gemm> double operationsOf(const Gemm &gemm) {
  return 2.0 * double(gemm.m) * double(gemm.n) * double(gemm.k);
}

/// The cost of a group or a collective of all ranks, measured in a series.
struct MessageCost {
  LaunchMode launchMode = LaunchMode::Eager;
  std::optional<CollectiveKind> collective = {}; ///< nullopt for a group
  /// Sent or received by a rank, whichever is larger.
  int64_t bytes = 0;
  double us = 0;

  bool isOfSame(const MessageCost &other) const {
    return launchMode == other.launchMode && collective == other.collective && bytes == other.bytes;
  }
};
/// Returns "group" or the name of the collective.
std::string nameOfMessage(std::optional<CollectiveKind> collective);
/// Returns the kind and the bytes of a Group or Collective command, as used in MessageCost.
std::optional<CollectiveKind> kindOfMessage(const Plan &plan, const Command &command);
int64_t bytesOfMessage(const Plan &plan, const Command &command);

/// Messages between hosts. The defaults are assumptions: one 400 Gbit/s network card per host.
struct NetworkCost {
  double latencyUs = 10;
  double bytesPerUs = 50000;     ///< per host and direction
  double rankBytesPerUs = 50000; ///< per rank and direction
};

struct CostModel {
  std::string machine; ///< a descriptive name
  int64_t ranks = 1;   ///< number of ranks during the measurement
  std::vector<OperationCosts> operations;
  std::vector<GemmCost> gemms;
  std::vector<MessageCost> messages;
  NetworkCost network;

  /// Returns null if these modes were not measured.
  const OperationCosts *find(LaunchMode launchMode, TransferMode transferMode) const;
  /// Returns null unless exactly this shape was measured.
  const GemmCost *find(const PlanMatmul &shape) const;
  /// Adds an entry, or replaces the one of the same shape, modes or size.
  void add(const GemmCost &gemm);
  void add(const OperationCosts &costs);
  void add(const MessageCost &cost);

  /// Returns the time and utilisation of a GEMM, measured or estimated. Interpolates linearly in
  /// the rows between entries with the same types, columns and depth, or else with another result
  /// type. Below the smallest entry, returns its values; above the largest, scales the time with
  /// the rows. Without such entries, uses the flop rate of the entry of this type that is nearest
  /// in size. An addend costs the time to move its bytes, and a GEMM without rows costs nothing.
  /// Returns Unsupported if no GEMM of this type was measured.
  Result<GemmCost> gemmCost(const PlanMatmul &shape) const;

  /// Returns the time of a message, interpolated linearly between entries of its kind. Below the
  /// smallest entry, returns its time; above the largest, scales with the bytes. Returns nullopt if
  /// no message of the kind was measured.
  std::optional<double> messageUs(LaunchMode launchMode, std::optional<CollectiveKind> collective,
                                  int64_t bytes) const;

  /// Encodes the model as JSON that decode() reads back exactly.
  std::string encode() const;
  /// Returns BadInput, which names the location of the error, for malformed text.
  static Result<CostModel> decode(llvm::StringRef text);

private:
  double memoryUs(double bytes) const;
  std::vector<const GemmCost *> columnOf(const PlanMatmul &shape) const;
  Result<GemmCost> nearest(const PlanMatmul &shape) const;
};

/// Returns the model with GEMMs that take no time, or with only GEMMs taking time.
CostModel withoutGemms(CostModel model);
CostModel withGemmsAlone(CostModel model);

} // namespace braid
