//===- runtime/simulate/cost_model.h - what the operations of a machine cost ------------------===//
//
// The simulator predicts from these numbers how long a Plan takes. Each belongs to one law, and
// api/calibrate/calibrate.h says how it is measured:
//
//   run      time outside the commands: until the first one has begun on all ranks, and until the
//            host sees the end; gapUs between two runs that follow one another
//   issue    the host's time for a command in an eager run; 0 in a graph
//   signal   its flag is set on the peer signalUs later
//   copy     a fixed time, then bytes at a rate; copies over one link share it evenly. A sum or a
//            pointwise operation costs as much as a local copy of half the bytes that it reads and
//            writes
//   GEMM     a table by shape; rows between two entries lie on the line through both
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

/// Commands reach the device one by one as the host issues them, or replayed, all at once.
enum class LaunchMode : uint8_t { Eager, Graph };
llvm::StringRef name(LaunchMode launchMode);
/// "copies=kernel, signals=default"
std::string str(TransferMode transferMode);

struct CopyCost {
  double fixedUs = 0;
  double bytesPerUs = 1;
};

/// The costs of everything but GEMMs and messages in one launch mode and one transfer mode.
struct OperationCosts {
  LaunchMode launchMode = LaunchMode::Eager;
  TransferMode transferMode = {};
  double runUs = 0, gapUs = 0, issueUs = 0, signalUs = 0;
  CopyCost local; ///< within a rank's memory; also sums and pointwise operations
  CopyCost pull;  ///< from a peer
  CopyCost push;  ///< to a peer
};

/// A GEMM as measured in a series on one stream.
struct GemmCost {
  DType dtype = DType::BF16;
  bool transposeB = false;
  int64_t m = 0, n = 0, k = 0;
  double us = 0;
  /// The part of the machine that it keeps busy, above 0 and at most 1: two GEMMs of utilisation
  /// 0.5 take no longer together than one alone.
  double utilisation = 1;
  std::optional<DType> partial = {}; ///< the result's type if it is not `dtype`, as in PlanMatmul

  DType resultType() const { return partial.value_or(dtype); }
  /// Whether `other`, a PlanMatmul or a GemmCost, has the same types, columns and depth.
  template <class Shape> bool isOfSameColumn(const Shape &other) const {
    return dtype == other.dtype && resultType() == other.resultType() &&
           transposeB == other.transposeB && n == other.n && k == other.k;
  }
  template <class Shape> bool isOfSameShape(const Shape &other) const {
    return isOfSameColumn(other) && m == other.m;
  }
};

/// The arithmetic operations of a PlanMatmul or a GemmCost.
template <class Gemm> double operationsOf(const Gemm &gemm) {
  return 2.0 * double(gemm.m) * double(gemm.n) * double(gemm.k);
}

/// A group or a collective of all ranks, measured in a series.
struct MessageCost {
  LaunchMode launchMode = LaunchMode::Eager;
  std::optional<CollectiveKind> collective = {}; ///< none: a group
  int64_t bytes = 0;                             ///< sent or received by a rank, the larger number
  double us = 0;

  bool isOfSame(const MessageCost &other) const {
    return launchMode == other.launchMode && collective == other.collective && bytes == other.bytes;
  }
};
/// "group", or the collective's name.
std::string nameOfMessage(std::optional<CollectiveKind> collective);
/// The kind and the bytes of a Group or Collective command, as MessageCost has them.
std::optional<CollectiveKind> kindOfMessage(const Plan &plan, const Command &command);
int64_t bytesOfMessage(const Plan &plan, const Command &command);

/// Messages between hosts. The defaults are assumed, not measured: one network card of 400 Gbit/s
/// a host.
struct NetworkCost {
  double latencyUs = 10;
  double bytesPerUs = 50000;     ///< a host's, in each direction
  double rankBytesPerUs = 50000; ///< a rank's, in each direction
};

struct CostModel {
  std::string machine; ///< a name for people
  int64_t ranks = 1;   ///< that measured it
  std::vector<OperationCosts> operations;
  std::vector<GemmCost> gemms;
  std::vector<MessageCost> messages;
  NetworkCost network;

  /// Null if these modes were not measured.
  const OperationCosts *find(LaunchMode launchMode, TransferMode transferMode) const;
  /// Null unless exactly this shape was measured.
  const GemmCost *find(const PlanMatmul &shape) const;
  /// Each replaces the entry of the same shape, modes or size.
  void add(const GemmCost &gemm);
  void add(const OperationCosts &costs);
  void add(const MessageCost &cost);

  /// The time and utilisation of a GEMM, measured or not. Among entries with its types, columns
  /// and depth, or else with another result type, they lie on the line between the entries with
  /// fewer and with more rows. Below the smallest entry they are those of that; above the largest
  /// the time is in proportion to the rows. Without such entries the flop rate of the entry of this
  /// type that is nearest in size counts. An addend costs the time to move its bytes, and a
  /// GEMM without rows costs nothing. Unsupported if no GEMM of this type was measured.
  Result<GemmCost> gemmCost(const PlanMatmul &shape) const;

  /// The time of a message: on the line between the next smaller and larger entry of its kind, that
  /// of the smallest entry below it, and in proportion to the largest above it. Nothing if no
  /// message of the kind was measured.
  std::optional<double> messageUs(LaunchMode launchMode, std::optional<CollectiveKind> collective,
                                  int64_t bytes) const;

  /// JSON; decode() gives the same back.
  std::string encode() const;
  /// BadInput names the place of a mistake in any text.
  static Result<CostModel> decode(llvm::StringRef text);

private:
  double memoryUs(double bytes) const;
  std::vector<const GemmCost *> columnOf(const PlanMatmul &shape) const;
  Result<GemmCost> nearest(const PlanMatmul &shape) const;
};

/// The model if GEMMs took no time, and if everything else took none.
CostModel withoutGemms(CostModel model);
CostModel withGemmsAlone(CostModel model);

} // namespace braid
