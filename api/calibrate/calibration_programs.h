//===- api/calibrate/calibration_programs.h - tiny programs to time ---------------------------===//
//
// The functions return the source text of programs that run a chain of one kind of operation on all
// ranks of a mesh. Sizes are in bytes. Ranks communicate only with ranks on the same host.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/timing/plan_timer.h"
#include "ir/program.h"

namespace braid::calibration {

/// The number of ranks, and the number of ranks on each host.
struct Mesh {
  Mesh(int64_t all) : ranks(all), perHost(all) {}
  explicit Mesh(const PlanTimer &timer) : ranks(timer.ranks()), perHost(timer.ranksPerHost()) {}
  int64_t ranks, perHost;
};

/// Computes `sums` sums of two arrays. Each sum causes as much memory traffic as copying `bytes`.
std::string sums(const Mesh &mesh, int64_t bytes, int sums);
/// Sends every rank's block to its neighbor `turns` times, back to back. Alternates between two
/// streams, because real schedules also run transfers on separate streams.
std::string transferChain(const Mesh &mesh, Protocol protocol, int64_t bytes, int turns);
/// Computes `count` GEMMs of one shape.
std::string gemms(const Mesh &mesh, const PlanMatmul &shape, int count);

/// Compiles `text` and returns the Plans of all ranks.
Result<std::vector<Plan>> plansOf(const std::string &text,
                                  Transport transport = Transport::PeerMemory);

struct ProgramTiming {
  llvm::ArrayRef<LaunchMode> launchModes;
  TransferMode transferMode = {};
  Transport transport = Transport::PeerMemory;
  bool hasCopies = true; ///< if false, transfers consist only of their signals
};
/// Times a program in each launch mode. Collective. Error messages refer to the program as `what`.
Result<std::vector<RunTime>> timeProgram(PlanTimer &timer, const std::string &what,
                                         const std::string &text, const ProgramTiming &timing);

} // namespace braid::calibration
