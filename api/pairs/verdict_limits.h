//===- api/pairs/verdict_limits.h - from where on a figure stands out -------------------------===//
//
// Medians of a quiet machine differ by a few percent from pair to pair. The limits are far enough
// from that to say nothing about a healthy machine, and close enough to see one lost lane in four.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/pair_report.h"

#include "llvm/ADT/StringRef.h"

namespace braid {

/// What is usual for a class of link.
struct LinkLimits {
  /// What a healthy link gives of its nominal rate. Published: NVLink of H100 376 to 392 of 450
  /// GB/s, PCIe 4.0 x16 25.5 to 26.5 of 31.5 below a switch. Root complexes and the links between
  /// sockets forward what they were made for, on some healthy machines half or a third of it.
  double efficiency;
  /// Slow is less than this share of the median. Root complexes differ by which of their parts the
  /// devices are on, so pairs of these classes are unlike each other on healthy machines.
  double slowShare;
  /// Whether the design has several pairs share it, so that each gets less while all run.
  bool isShared;
};

/// By LinkClass.
inline constexpr LinkLimits kLinkLimits[] = {
    /*Own*/ {0, 0.85, false},         /*NvLink*/ {0.8, 0.85, false},
    /*PcieSwitch*/ {0.8, 0.85, true}, /*HostBridge*/ {0.4, 0.7, true},
    /*SameNuma*/ {0.35, 0.7, true},   /*CrossNuma*/ {0.25, 0.6, true},
    /*Unknown*/ {0, 0.85, false},
};

/// What is below this share of what a link should give is slow: the efficiency is that of a good
/// measurement, and noise takes some of it.
inline constexpr double kNominalShare = 0.9;

/// A figure stands out from its like if it is this many times their scatter away: the median of the
/// distances to the median, of the better half, scaled to a standard deviation. Of the 24,000
/// figures of 64 devices, one of normal noise is beyond 6 in 40,000 machines.
inline constexpr double kScatters = 6;
inline constexpr double kScatterOfMad = 1.4826;
/// However few and unlike the others are: what is further below them stands out.
inline constexpr double kMostScatter = 0.4;

/// A median of fewer ordered pairs than that says nothing about one of them: among three, two slow
/// ones are the median.
inline constexpr size_t kLeastGroup = 4;

/// A pair is slow only when others run below this share of what it alone gives, divided by the
/// pairs that its busier end serves.
inline constexpr double kTogetherShare = 0.6;

/// Two links share a bridge if each gives less than this share beside the other of what it gives
/// alone: half is what a fair bridge leaves, and links of their own leave all.
inline constexpr double kBridgeShare = 0.7;

/// The slower direction of a pair that has no like, as a share of the faster one.
inline constexpr double kDirectionShare = 0.8;

/// A latency stands out from this multiple of the median, and at least by these microseconds: the
/// clocks of signals are no finer.
inline constexpr double kLatencyTimes = 1.6;
inline constexpr double kLatencyUs = 1;

/// A peer path goes through the host if it is slow, and not faster than the host's path by more.
inline constexpr double kHostTimes = 1.15;

/// Bandwidth of transfers that a link could bring in a shorter time is made of latencies, and no
/// measure of the link: a copy costs a few microseconds whatever its size.
inline constexpr double kLeastTransferUs = 100;

/// Smaller ones, which are all that there may be time for, say nothing about bandwidth at all.
inline constexpr int64_t kLeastBytes = 1 << 20;

/// What runs together in smaller transfers than that shares the time that it takes to begin them.
inline constexpr int64_t kLeastTogetherBytes = 1 << 20;

/// CPU ranks share cores, caches and memory with all that runs there. On a machine with other work
/// a pair was seen at a third of the median, and what ran together at no rate at all; what is told
/// from that is a link that is slowed down on purpose, by ten times or more.
struct BackendLimits {
  llvm::StringRef backend;
  double slowShare, directionShare;
  double togetherShare; ///< 0: nothing is slow
  double bridgeShare;   ///< from where on a link is tried with others, too
  double latencyTimes, latencyUs;
};
inline constexpr BackendLimits kCpuLimits = {"cpu", 0.15, 0.15, 0, 0.15, 10, 100};

} // namespace braid
