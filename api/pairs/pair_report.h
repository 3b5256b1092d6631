//===- api/pairs/pair_report.h - the measurements of pairs of devices -------------------------===//
#pragma once

#include "api/machine/topology.h"
#include "api/status.h"

#include <array>

namespace braid {

/// The ways in which bytes are transferred from one device to another.
enum class Path : uint8_t {
  PutEngine, ///< the source writes to the destination's memory, by a copy engine
  PutKernel, ///< ... by a kernel
  GetEngine, ///< the destination reads the source's memory, by a copy engine
  GetKernel, ///< ... by a kernel
  Messages,  ///< a send and a receive of the message library (NCCL)
};
inline constexpr std::array kAllPaths = {Path::PutEngine, Path::PutKernel, Path::GetEngine,
                                         Path::GetKernel, Path::Messages};

/// In order of severity. The verdict on a pair is the worst verdict on its paths.
enum class Verdict : uint8_t {
  NotMeasured, ///< the command ended before the measurement
  Unavailable, ///< the devices lack this path
  Ok,
  Slow,    ///< far below the median of comparable pairs, or below the nominal rate of its link
  Hung,    ///< a transfer did not end within the time limit
  Crashed, ///< a process of the pair died
  Wrong,   ///< the bytes that arrived differ from those that were sent
};

/// Return names such as "put-engine" and "wrong".
llvm::StringRef name(Path path);
llvm::StringRef name(Verdict verdict);

/// The measurements for one size. 0 means not measured.
struct PathPoint {
  int64_t bytes = 0;
  double latencyUs = 0; ///< half of a round trip, including signals
  double GBps = 0;      ///< the rate of many successive transfers; 10^9 bytes/s
};

/// The first wrong byte in a transfer of `bytes`.
struct WrongData {
  int64_t bytes = 0, offset = 0;
  uint8_t expected = 0, got = 0;
};

/// One path of an ordered pair.
struct PathReport {
  Verdict verdict = Verdict::NotMeasured;
  std::string reason;            ///< explains a verdict other than Ok to users
  std::vector<PathPoint> points; ///< sorted by size
  std::optional<WrongData> wrong;

  /// Replaces the verdict if `to` is more severe.
  void worsen(Verdict to, std::string why);
};

/// An ordered pair of devices.
struct PairRow {
  int64_t source = 0, destination = 0; ///< device numbers
  Link link;
  std::array<PathReport, kAllPaths.size()> paths; ///< indexed by Path

  PathReport &on(Path path) { return paths[static_cast<size_t>(path)]; }
  const PathReport &on(Path path) const { return paths[static_cast<size_t>(path)]; }
  Verdict verdict() const;
  /// Returns the path with the highest bandwidth at its largest size, or nullopt.
  std::optional<Path> fastest() const;
};

struct MeasuredDevice {
  int64_t number = 0; ///< the backend's number
  std::string name, uuid;
};

struct PairReport {
  std::string backend, hostname;
  std::vector<MeasuredDevice> devices;
  std::vector<PairRow> rows; ///< sorted by source, then destination
  int signal = 0; ///< the SIGINT, SIGTERM or SIGHUP that ended the measurements early, or 0

  /// Starts without names and measurements of the devices.
  PairReport(std::string usedBackend, const std::vector<int64_t> &numbers);
  /// Returns the row of two indices in `devices`, or null if they are equal.
  const PairRow *row(size_t source, size_t destination) const;
  PairRow *row(size_t source, size_t destination) {
    return const_cast<PairRow *>(std::as_const(*this).row(source, destination));
  }
  Verdict verdict() const;
};

/// Finds slow paths, and sets their verdict to Slow: see judge.cpp.
void judge(PairReport &report);

/// Returns matrices of bandwidth and latency by the fastest path of each pair, and a line for each
/// path that is not ok.
std::string reportText(const PairReport &report);
/// Returns all measurements.
std::string reportJson(const PairReport &report);
/// Returns a self-contained page: a matrix coloured by bandwidth and verdict, above the text.
std::string reportHtml(const PairReport &report);

/// Returns a text such as "4 B", "64 KiB" or "1.5 MiB".
std::string sizeText(int64_t bytes);
/// Returns three significant digits: "392", "25.4", "0.81".
std::string figureText(double value);

} // namespace braid
