//===- api/pairs/pair_report.h - what was measured between devices, pair by pair --------------===//
//
// What measuring fills in, and what verdicts, matrices and files are made from. Values only.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace braid {

/// How bytes get from one device to another.
enum class Path : uint8_t {
  PutEngine, ///< the source writes into the destination's memory, by a copy engine
  PutKernel, ///< ... by a kernel
  GetEngine, ///< the destination reads the source's memory, by a copy engine
  GetKernel, ///< ... by a kernel
  Messages,  ///< a send and a receive of the message library (NCCL)
  Host,      ///< through memory of the host: the source writes there, the destination reads
};
inline constexpr size_t kPaths = 6;

/// How two devices are joined, the best first.
enum class LinkClass : uint8_t {
  Own,        ///< one device
  NvLink,     ///< directly, or by a switch
  PcieSwitch, ///< below one PCIe switch
  HostBridge, ///< below one root complex
  SameNuma,   ///< several root complexes of one NUMA node
  CrossNuma,  ///< over the link between sockets
  Unknown,
};

/// What is known about the way between two devices without measuring.
struct Link {
  LinkClass kind = LinkClass::Unknown;
  int64_t count = 0;        ///< of NvLinks that are up
  double nominalGBps = 0;   ///< one way, from generation and width; 0: not known
  std::string noPeerAccess; ///< why the driver gives no peer access; empty: it does, or not known
};

/// One device of the machine.
struct MachineDevice {
  std::string name; ///< of the part; "cpu rank"
  std::string uuid; ///< what no other one has; may be empty
  std::string pci;  ///< "0000:18:00.0"; may be empty
  int64_t numaNode = -1;
};

/// One size over one path. 0: not measured.
struct PathPoint {
  int64_t bytes = 0;
  double latencyUs = 0; ///< one way, with its signal: half of there and back
  double GBps = 0;      ///< of many, one after the other; 10^9 bytes a second
};

enum class PathOutcome : uint8_t {
  NotMeasured, ///< nobody asked, or the job ended before
  Measured,
  Unavailable, ///< `reason` says why
  WrongData,
  Crashed,
  Hung,
};

/// Where data first were not what was sent.
struct WrongData {
  int64_t bytes = 0;  ///< of the transfer
  int64_t round = 0;  ///< which of them
  int64_t offset = 0; ///< in bytes
  uint8_t expected = 0, got = 0;
  bool together = false; ///< while all pairs ran; alone the path had brought what was sent
};

/// One path of an ordered pair.
struct PathReport {
  PathOutcome outcome = PathOutcome::NotMeasured;
  std::string reason;            ///< of what was not measured: "rank 1 was killed by signal 9"
  std::vector<PathPoint> points; ///< by size, from the smallest on
  std::optional<WrongData> wrong;
  double togetherGBps = 0; ///< at the largest size, while all pairs run; 0: not measured
};

/// An ordered pair of devices.
struct PairRow {
  int64_t source = 0, destination = 0;
  Link link;
  std::array<PathReport, kPaths> paths; ///< by Path
};

/// A link of two that were tried together, and what its slower direction gives.
struct CoupledLink {
  int64_t source = 0, destination = 1;
  bool bothWays = false;   ///< the other direction runs, too
  double aloneGBps = 0;    ///< while no other link runs
  double togetherGBps = 0; ///< while the other link of the two runs
};
/// Two links without a device in common, each of which was slow only while all pairs ran.
struct LinkCouple {
  Path path = Path::PutEngine;
  int64_t bytes = 0;
  CoupledLink one, other;
};

/// All of a machine.
struct PairReport {
  std::string backend; ///< cpu, cuda
  std::string hostname;
  std::vector<MachineDevice> devices; ///< by number
  std::vector<PairRow> rows;          ///< by source, then destination; none from a device to itself
  /// Of all pairs at once: Measured, or how that ended and `togetherReason`, why.
  PathOutcome together = PathOutcome::NotMeasured;
  std::string togetherReason = {};
  std::vector<LinkCouple> couples = {};
};

} // namespace braid
