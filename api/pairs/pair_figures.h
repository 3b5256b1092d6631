//===- api/pairs/pair_figures.h - figures read off a report -----------------------------------===//
#pragma once

#include "api/pairs/pair_report.h"

#include "llvm/ADT/ArrayRef.h"

#include <optional>
#include <vector>

namespace braid {

/// All paths, by value.
inline constexpr std::array<Path, kPaths> kAllPaths = {
    Path::PutEngine, Path::PutKernel, Path::GetEngine, Path::GetKernel, Path::Messages, Path::Host};
/// Those on which one device reaches into the other's memory.
inline constexpr std::array<Path, 4> kPeerPaths = {Path::PutEngine, Path::PutKernel,
                                                   Path::GetEngine, Path::GetKernel};

inline const PathReport &on(const PairRow &row, Path path) {
  return row.paths[static_cast<size_t>(path)];
}
inline PathReport &on(PairRow &row, Path path) { return row.paths[static_cast<size_t>(path)]; }

inline bool isFault(PathOutcome outcome) {
  return outcome == PathOutcome::WrongData || outcome == PathOutcome::Crashed ||
         outcome == PathOutcome::Hung;
}

/// The rows of a report, by pair. Looks into the report, which has to stay as it is. Rows that name
/// devices that are not there are left out.
class PairTable {
public:
  explicit PairTable(const PairReport &report);
  size_t devices() const { return devices_; }
  /// Null if there is no such row.
  const PairRow *row(size_t source, size_t destination) const {
    return rows_[source * devices_ + destination];
  }

private:
  size_t devices_;
  std::vector<const PairRow *> rows_;
};

/// The point of the largest size whose bandwidth was measured; null: none, or the path failed.
const PathPoint *largestPoint(const PathReport &path);
/// Whether its largest transfers say anything about bandwidth (kLeastBytes).
bool hasBandwidth(const PathReport &path);
/// The point of the smallest size whose latency was measured; null: none, or the path failed.
const PathPoint *smallestPoint(const PathReport &path);

/// At the largest size, in GB/s; 0: not measured, or the path failed.
double bandwidthOf(const PathReport &path);
/// At the smallest size, in microseconds; 0: not measured, or the path failed.
double latencyOf(const PathReport &path);

/// The fastest of `among` at the largest size, the first of equal ones.
std::optional<Path> fastestPath(const PairRow &row, llvm::ArrayRef<Path> among = kAllPaths);
/// The one of `among` with the least latency, the first of equal ones.
std::optional<Path> quickestPath(const PairRow &row, llvm::ArrayRef<Path> among = kAllPaths);

/// What the fastest path gives, in GB/s; 0: nothing was measured.
double bestBandwidth(const PairRow &row);

/// The first fault of the row's paths: Hung before Crashed before WrongData; Measured if there is
/// none.
PathOutcome worstOutcome(const PairRow &row);

/// The middle value; of an even number of them, the mean of the two in the middle. 0 of none.
double medianOf(std::vector<double> values);

} // namespace braid
