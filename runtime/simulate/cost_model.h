//===- runtime/simulate/cost_model.h - what the operations of a machine cost ------------------===//
//
// A handful of measured numbers, from which a simulator predicts how long a Plan takes. Each number
// belongs to one law, and each is measured by itself (api/calibrate/calibrate.h):
//
//   GEMM    a table by shape; between measured rows a line, see gemmCost(). Several at once
//              share the machine, and may get into one another's way
//   copy       fixed + bytes / rate; copies of a rank that are under way at once share a link
//   sum        its own numbers, else those of a copy within memory, of half the bytes that it
//              reads and writes, because a copy reads and writes each of its own
//   pointwise  the same
//   kernel     a copy by a kernel, a sum or a message needs processors: it takes what GEMMs that
//              began before it leave of the rank's machine, and leaves nothing itself, but for
//              copies over a link, which have enough of a tenth
//   signal     the stream is held for signalUs; after flightUs more the flag is set; a stream whose
//              flag is set goes on after awaitUs
//   launch     a kernel that only signals and waits, and a signal or an await by memory operation,
//              begin launchUs later, unless copies by engines alone are around them, whose chains
//              are measured as they are. A kernel's is of the whole machine, of which it has a
//              tenth at least
//   message    a group or a collective takes what is measured for as many bytes, from when all
//              ranks have come
//   network    bytes between hosts flow latencyUs after that; those that leave one host, or reach
//              one, share its rate evenly, and those of one rank that of its own
//   event      the waiting stream goes on eventUs after what was recorded
//   issue      the host needs so long for a command; nothing begins before it was issued
//   run        so long passes besides: until the first command begins, and until the host knows;
//              of runs that wait for other ranks, which begin apart, apartUs more
//   power      the clock of GEMMs that it limits is as high as the run's average allows
//   burst      of runs that follow one another each begins gapUs after the one before it has ended
//              on its rank, and forkUs later if several streams begin at once
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

/// How commands reach the device: one by one as the host issues them, or replayed, all at once.
enum class LaunchMode : uint8_t { Eager, Graph };
llvm::StringRef name(LaunchMode launchMode);
/// "copies=kernel, signals=default"
std::string str(TransferMode transferMode);

struct CopyCost {
  double fixedUs = 0;
  double bytesPerUs = 1;       ///< of a copy alone
  double sharedBytesPerUs = 1; ///< of all copies together that leave, or reach, a rank
};

/// What everything but GEMMs costs, where commands are issued in one launch mode and transfers
/// made in one transfer mode.
struct OperationCosts {
  LaunchMode launchMode = LaunchMode::Eager;
  TransferMode transferMode = {};
  double runUs = 0;
  double apartUs = 0;
  double gapUs = 0, forkUs = 0;
  /// The host's time for a command. Of a graph: 0, for its launch is part of runUs.
  double issueCopyUs = 0, issueMatmulUs = 0, issueSignalUs = 0, issueEventUs = 0;
  double eventUs = 0;
  double signalUs = 0, flightUs = 0, awaitUs = 0;
  double launchUs = 0;
  CopyCost local;                   ///< within a rank's memory
  CopyCost pull;                    ///< from a peer
  CopyCost push;                    ///< to a peer
  std::optional<CopyCost> sum = {}; ///< of half its bytes; nothing: as `local`

  double issueUs(CommandKind kind) const;
  /// Of a run of `plan` that follows on another one.
  double gapBefore(const Plan &plan) const;
  const CopyCost &sumCost() const { return sum ? *sum : local; }
};

/// A GEMM as it was measured, one behind the other on one stream.
struct GemmCost {
  DType dtype = DType::BF16;
  bool transposeB = false;
  int64_t m = 0, n = 0, k = 0;
  double us = 0;
  /// The share of the machine that it keeps busy while it runs alone, above 0 and at most 1. Two at
  /// once take as long as one if it is a half.
  double utilisation = 1;
  /// How many times as long such GEMMs take issued round-robin to several streams as one behind the
  /// other, at least 1. Above 1 they get into one another's way.
  double contention = 1;
  std::optional<DType> partial = {}; ///< as PlanMatmul's: the result's type, if it is another

  DType resultType() const { return partial.value_or(dtype); }
  /// Whether `other`, a PlanMatmul or a GemmCost, differs in its rows only, or not even in those.
  template <class Shape> bool isOfSameColumn(const Shape &other) const {
    return dtype == other.dtype && resultType() == other.resultType() &&
           transposeB == other.transposeB && n == other.n && k == other.k;
  }
  template <class Shape> bool isOfSameShape(const Shape &other) const {
    return isOfSameColumn(other) && m == other.m;
  }
};

/// A group, or a collective, of all ranks, behind one like it.
struct MessageCost {
  LaunchMode launchMode = LaunchMode::Eager;
  std::optional<CollectiveKind> collective = {}; ///< nothing: a group
  int64_t bytes = 0;                             ///< that a rank gives or gets, whichever is more
  double us = 0;

  bool isOfSame(const MessageCost &other) const {
    return launchMode == other.launchMode && collective == other.collective && bytes == other.bytes;
  }
};
/// "group", or the collective's name.
std::string nameOfMessage(std::optional<CollectiveKind> collective);
/// Of a Group or a Collective, as MessageCost has them.
std::optional<CollectiveKind> kindOfMessage(const Plan &plan, const Command &command);
int64_t bytesOfMessage(const Plan &plan, const Command &command);

/// What a message between hosts costs beside the meeting of its ranks. The default is nobody's
/// measurement: one network card of 400 Gbit/s a host.
struct NetworkCost {
  double latencyUs = 10;
  double bytesPerUs = 50000;     ///< of all ranks of a host together, in each direction
  double rankBytesPerUs = 50000; ///< of each rank, likewise; a host's rate limits them all
};

/// What is taken of the power that a rank may take for long (power.h). The default: nothing is
/// limited by it.
struct PowerCost {
  double idle = 0;   ///< a part of it, where no GEMM is under way
  double copy = 0;   ///< a part of it more, while data are copied
  double boost = 1;  ///< the highest clock, as a multiple of that of large GEMMs in a row
  double restUs = 0; ///< of the device before a run that does not follow another one at once

  bool isKnown() const { return boost > 1 || copy > 0; }
};

struct CostModel {
  std::string machine; ///< what was measured, for people
  int64_t ranks = 1;   ///< with how many ranks
  std::vector<OperationCosts> operations;
  std::vector<GemmCost> gemms;
  std::vector<MessageCost> messages;
  NetworkCost network;
  PowerCost power;

  /// Null if that was not measured.
  const OperationCosts *find(LaunchMode launchMode, TransferMode transferMode) const;
  /// Null unless exactly this shape was measured.
  const GemmCost *find(const PlanMatmul &shape) const;
  /// Replaces what is known of that shape, or of those two modes.
  void add(const GemmCost &gemm);
  void add(const OperationCosts &costs);
  void add(const MessageCost &cost);

  /// What a GEMM costs, measured or not; one that adds, as much more as the memory takes for what
  /// it adds. Of the entries with the same types, columns and depth:
  /// between two row counts time, utilisation and contention are on the line through both. With
  /// fewer rows than the smallest entry the time is on the line through the two smallest, and what
  /// it keeps busy of the machine in all, time x utilisation, is in proportion to the rows. With
  /// more rows than the largest, so is the time. Outside of both, contention is that of the entry
  /// at that end. Without such an entry, the same of those with another result type, or else the
  /// flop rate of the entry of this type whose size is nearest; either with the time that the
  /// memory takes for more bytes, or less for fewer.
  /// Unsupported if nothing of this type was measured.
  Result<GemmCost> gemmCost(const PlanMatmul &shape) const;

  /// What a message costs: on the line between the entries of its kind above and below; as much as
  /// the least of them, or in proportion to the largest, outside. Nothing if none was measured.
  std::optional<double> messageUs(LaunchMode launchMode, std::optional<CollectiveKind> collective,
                                  int64_t bytes) const;

  /// JSON; decode() gives the same back.
  std::string encode() const;
  /// BadInput says what is not as encode() writes it. `text` may be anything.
  static Result<CostModel> decode(llvm::StringRef text);

private:
  Result<GemmCost> costOfProduct(const PlanMatmul &shape) const;
  double memoryUs(double bytes) const;
  std::optional<GemmCost> fromColumn(const PlanMatmul &shape) const;
  Result<GemmCost> nearest(const PlanMatmul &shape) const;
  GemmCost withResult(GemmCost gemm, std::optional<DType> partial) const;
};

} // namespace braid
