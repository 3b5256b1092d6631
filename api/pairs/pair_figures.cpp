//===- api/pairs/pair_figures.cpp - figures read off a report ---------------------------------===//

#include "api/pairs/pair_figures.h"

#include "api/pairs/verdict_limits.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace braid {

PairTable::PairTable(const PairReport &report)
    : devices_(report.devices.size()), rows_(devices_ * devices_) {
  const auto count = static_cast<int64_t>(devices_);
  auto isThere = [&](int64_t device) { return device >= 0 && device < count; };
  for (const PairRow &row : report.rows)
    if (isThere(row.source) && isThere(row.destination) && row.source != row.destination)
      rows_[static_cast<size_t>(row.source * count + row.destination)] = &row;
}

const PathPoint *largestPoint(const PathReport &path) {
  const PathPoint *largest = nullptr;
  if (path.outcome == PathOutcome::Measured)
    for (const PathPoint &point : path.points)
      if (point.GBps > 0 && (!largest || point.bytes > largest->bytes))
        largest = &point;
  return largest;
}

bool hasBandwidth(const PathReport &path) {
  const PathPoint *point = largestPoint(path);
  return point && point->bytes >= kLeastBytes;
}

const PathPoint *smallestPoint(const PathReport &path) {
  const PathPoint *smallest = nullptr;
  if (path.outcome == PathOutcome::Measured)
    for (const PathPoint &point : path.points)
      if (point.latencyUs > 0 && (!smallest || point.bytes < smallest->bytes))
        smallest = &point;
  return smallest;
}

double bandwidthOf(const PathReport &path) {
  const PathPoint *point = largestPoint(path);
  return point ? point->GBps : 0;
}

double latencyOf(const PathReport &path) {
  const PathPoint *point = smallestPoint(path);
  return point ? point->latencyUs : 0;
}

std::optional<Path> fastestPath(const PairRow &row, llvm::ArrayRef<Path> among) {
  std::optional<Path> fastest;
  for (Path path : among)
    if (bandwidthOf(on(row, path)) > (fastest ? bandwidthOf(on(row, *fastest)) : 0))
      fastest = path;
  return fastest;
}

std::optional<Path> quickestPath(const PairRow &row, llvm::ArrayRef<Path> among) {
  std::optional<Path> quickest;
  for (Path path : among) {
    const double us = latencyOf(on(row, path));
    if (us > 0 && (!quickest || us < latencyOf(on(row, *quickest))))
      quickest = path;
  }
  return quickest;
}

double bestBandwidth(const PairRow &row) {
  const std::optional<Path> path = fastestPath(row);
  return path ? bandwidthOf(on(row, *path)) : 0;
}

PathOutcome worstOutcome(const PairRow &row) {
  for (PathOutcome fault : {PathOutcome::Hung, PathOutcome::Crashed, PathOutcome::WrongData})
    if (llvm::any_of(row.paths, [&](const PathReport &path) { return path.outcome == fault; }))
      return fault;
  return PathOutcome::Measured;
}

double medianOf(std::vector<double> values) {
  if (values.empty())
    return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1)
    return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

} // namespace braid
