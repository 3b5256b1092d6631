//===- tests/api/pairs/random_report.h - machines that are healthy, and what breaks them ------===//
#pragma once

#include "api/pairs/pair_report.h"

#include <random>

namespace braid::pairs_test {

/// How a machine is built, and how it is measured.
struct MachineShape {
  size_t devices = 8;
  LinkClass within = LinkClass::NvLink;      ///< an island
  LinkClass between = LinkClass::HostBridge; ///< islands
  size_t island = 8;                         ///< devices in one
  double noise = 0.05;                       ///< every figure is up to this share off
  bool hasTopology = true;                   ///< nominal rates are known
  bool hasTogether = true;
};

/// Nominal rate of a link of the class, in GB/s.
double nominalOf(LinkClass kind);

/// A machine without any fault: all paths, sizes from 4 bytes to 256 MiB, by `random`.
PairReport healthyReport(const MachineShape &shape, std::mt19937 &random);

/// A shape drawn at random, of 2 to `most` devices.
MachineShape randomShape(std::mt19937 &random, size_t most = 64);

PairRow &rowOf(PairReport &report, int64_t source, int64_t destination);

/// Divides the bandwidth of large transfers by `factor`, on all paths but the host's.
void makeSlow(PairRow &row, double factor);
/// Multiplies all latencies.
void makeLate(PairRow &row, double factor);
/// Puts and gets are refused.
void takePeerAccess(PairRow &row);
/// All paths end like that.
void fail(PairRow &row, PathOutcome outcome);
/// As many kinds of faults as there is room for; the same ones each time.
void breakSome(PairReport &report);

} // namespace braid::pairs_test
