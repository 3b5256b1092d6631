//===- api/pairs/pair_report.h - measurements of pairs of devices -----------------------------===//
#pragma once

#include "api/machine/topology.h"
#include "api/status.h"

#include <array>

namespace braid {

/// The ways to transfer bytes from one device to another.
enum class Path : uint8_t {
  PutEngine, ///< a copy engine of the source writes to the destination's memory
  PutKernel, ///< a kernel on the source writes to the destination's memory
  GetEngine, ///< a copy engine of the destination reads the source's memory
  GetKernel, ///< a kernel on the destination reads the source's memory
  Messages,  ///< a send and a receive of the message library (NCCL)
};
inline constexpr std::array kAllPaths = {Path::PutEngine, Path::PutKernel, Path::GetEngine,
                                         Path::GetKernel, Path::Messages};

/// Verdicts in ascending order of severity. A pair's verdict is the worst verdict of its paths.
enum class Verdict : uint8_t {
  NotMeasured, ///< the command ended before the measurement
  Unavailable, ///< the devices do not support this path
  Ok,
  Slow,    ///< far below the median of comparable pairs or the link's nominal rate
  Hung,    ///< a transfer did not finish within the timeout
  Crashed, ///< a process that measured the pair died
  Wrong,   ///< the received bytes differ from the sent bytes
};

/// Return names such as "put-engine" and "wrong".
llvm::StringRef name(Path path);
llvm::StringRef name(Verdict verdict);

/// The measurements for one transfer size. 0 means not measured.
struct PathPoint {
  int64_t bytes = 0;
  double latencyUs = 0; ///< half the time of a round trip, including signals
  double GBps = 0;      ///< bandwidth of many back-to-back transfers, in 10^9 bytes/s
};

/// The first wrong byte in a transfer of size `bytes`.
struct WrongData {
  int64_t bytes = 0, offset = 0;
  uint8_t expected = 0, got = 0;
};

/// The measurements for one path of an ordered pair.
struct PathReport {
  Verdict verdict = Verdict::NotMeasured;
  std::string reason;            ///< for users: the reason for a verdict other than Ok
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
  /// Returns the path with the highest bandwidth at its largest measured size, or nullopt if no
  /// path was measured.
  std::optional<Path> fastest() const;
};

struct MeasuredDevice {
  int64_t number = 0; ///< the backend's device number
  std::string name, uuid;
};

struct PairReport {
  std::string backend, hostname;
  std::vector<MeasuredDevice> devices;
  std::vector<PairRow> rows; ///< sorted by source, then destination
  int signal = 0; ///< the SIGINT, SIGTERM or SIGHUP that ended the measurements early, or 0

  /// Creates a row for each pair, without measurements. Device names are empty.
  PairReport(std::string usedBackend, const std::vector<int64_t> &numbers);
  /// Returns the row for two indices into `devices`, which must differ.
  PairRow &row(size_t source, size_t destination);
  Verdict verdict() const;
};

/// Finds slow paths, and sets their verdicts to Slow.
void judge(PairReport &report);

/// Returns matrices with the bandwidth and latency of each pair's fastest path, and a line for each
/// path whose verdict is not Ok.
std::string reportText(const PairReport &report);
/// Returns all measurements as JSON.
std::string reportJson(const PairReport &report);
/// Returns a self-contained HTML page: a matrix colored by bandwidth and verdict, above the text.
std::string reportHtml(const PairReport &report);

/// Formats a size, such as "4 B", "64 KiB" or "1.5 MiB".
std::string sizeText(int64_t bytes);
/// Formats a number with up to three significant digits, such as "392", "25.4" or "0.81".
std::string figureText(double value);

} // namespace braid
