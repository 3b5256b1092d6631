//===- api/pairs/pair_report.h - what was measured between devices, pair by pair --------------===//
#pragma once

#include "api/machine/topology.h"
#include "api/status.h"

#include <array>

namespace braid {

/// The ways in which bytes get from one device to another.
enum class Path : uint8_t {
  PutEngine, ///< the source writes into the destination's memory, by a copy engine
  PutKernel, ///< ... by a kernel
  GetEngine, ///< the destination reads the source's memory, by a copy engine
  GetKernel, ///< ... by a kernel
  Messages,  ///< a send and a receive of the message library (NCCL)
};
inline constexpr std::array kAllPaths = {Path::PutEngine, Path::PutKernel, Path::GetEngine,
                                         Path::GetKernel, Path::Messages};

/// In order of severity: the verdict on a pair is the worst of its paths.
enum class Verdict : uint8_t {
  NotMeasured, ///< the command ended before
  Unavailable, ///< the devices do not have this path
  Ok,
  Slow,    ///< far below the median of its like, or below what its link should give
  Hung,    ///< a transfer did not end within the time limit
  Crashed, ///< a process of the pair died
  Wrong,   ///< other bytes arrived than were sent
};

/// The words: "put-engine", "wrong".
llvm::StringRef name(Path path);
llvm::StringRef name(Verdict verdict);

/// The figures of one size. 0: not measured.
struct PathPoint {
  int64_t bytes = 0;
  double latencyUs = 0; ///< half of there and back, signals included
  double GBps = 0;      ///< the rate of many transfers in a row; 10^9 bytes a second
};

/// The first byte that was wrong in a transfer of `bytes`.
struct WrongData {
  int64_t bytes = 0, offset = 0;
  uint8_t expected = 0, got = 0;
};

/// One path of an ordered pair.
struct PathReport {
  Verdict verdict = Verdict::NotMeasured;
  std::string reason;            ///< explains a verdict other than Ok to people
  std::vector<PathPoint> points; ///< by size
  std::optional<WrongData> wrong;

  /// Replaces a verdict that is less severe.
  void worsen(Verdict to, std::string why);
};

/// An ordered pair of devices.
struct PairRow {
  int64_t source = 0, destination = 0; ///< their numbers
  Link link;
  std::array<PathReport, kAllPaths.size()> paths; ///< by Path

  PathReport &on(Path path) { return paths[static_cast<size_t>(path)]; }
  const PathReport &on(Path path) const { return paths[static_cast<size_t>(path)]; }
  Verdict verdict() const;
  /// The path with the highest bandwidth at its largest size, or nothing.
  std::optional<Path> fastest() const;
};

struct MeasuredDevice {
  int64_t number = 0; ///< the backend's
  std::string name, uuid;
};

struct PairReport {
  std::string backend, hostname;
  std::vector<MeasuredDevice> devices;
  std::vector<PairRow> rows; ///< by source, then destination

  /// Nothing is known yet about the devices.
  PairReport(std::string usedBackend, const std::vector<int64_t> &numbers);
  /// The row of two places in `devices`; null: they are one device.
  const PairRow *row(size_t source, size_t destination) const;
  PairRow *row(size_t source, size_t destination) {
    return const_cast<PairRow *>(std::as_const(*this).row(source, destination));
  }
  Verdict verdict() const;
};

/// Adds the verdict Slow: see judge.cpp.
void judge(PairReport &report);

/// Matrices of bandwidth and latency by the fastest path of each pair, and a line for each path of
/// a pair that is not ok.
std::string reportText(const PairReport &report);
/// All figures.
std::string reportJson(const PairReport &report);
/// A page that needs nothing else: a matrix coloured by bandwidth and verdict, over the text.
std::string reportHtml(const PairReport &report);

/// "4 B", "64 KiB", "1.5 MiB".
std::string sizeText(int64_t bytes);
/// Three significant digits: "392", "25.4", "0.81".
std::string figureText(double value);

} // namespace braid
