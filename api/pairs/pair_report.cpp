//===- api/pairs/pair_report.cpp - measurements of pairs of devices ---------------------------===//

#include "api/pairs/pair_report.h"

#include "runtime/host_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace braid {
namespace {

// Indexed by enum value.
constexpr llvm::StringRef kPathNames[] = {"put-engine", "put-kernel", "get-engine", "get-kernel",
                                          "messages"};
constexpr llvm::StringRef kVerdictNames[] = {"not-measured", "unavailable", "ok",   "slow",
                                             "hung",         "crashed",     "wrong"};
static_assert(std::size(kPathNames) == kAllPaths.size());
static_assert(std::size(kVerdictNames) == static_cast<size_t>(Verdict::Wrong) + 1);

} // namespace

llvm::StringRef name(Path path) { return kPathNames[static_cast<size_t>(path)]; }
llvm::StringRef name(Verdict verdict) { return kVerdictNames[static_cast<size_t>(verdict)]; }

void PathReport::worsen(Verdict to, std::string why) {
  if (to <= verdict)
    return;
  verdict = to;
  reason = std::move(why);
}

Verdict PairRow::verdict() const {
  Verdict worst = Verdict::NotMeasured;
  for (const PathReport &path : paths)
    worst = std::max(worst, path.verdict);
  return worst;
}

std::optional<Path> PairRow::fastest() const {
  std::optional<Path> fastest;
  for (Path path : kAllPaths)
    if (!on(path).points.empty() &&
        (!fastest || on(path).points.back().GBps > on(*fastest).points.back().GBps))
      fastest = path;
  return fastest;
}

PairReport::PairReport(std::string usedBackend, const std::vector<int64_t> &numbers)
    : backend(std::move(usedBackend)), hostname(hostName()) {
  for (int64_t source : numbers) {
    devices.push_back({source, "", ""});
    for (int64_t destination : numbers)
      if (source != destination)
        rows.push_back({source, destination, {}, {}});
  }
}

/// Each source has a row for every device except itself.
const PairRow *PairReport::row(size_t source, size_t destination) const {
  const size_t place = source * (devices.size() - 1) + destination - (destination > source ? 1 : 0);
  return source == destination ? nullptr : &rows[place];
}

Verdict PairReport::verdict() const {
  Verdict worst = Verdict::NotMeasured;
  for (const PairRow &row : rows)
    worst = std::max(worst, row.verdict());
  return worst;
}

std::string sizeText(int64_t bytes) {
  constexpr const char *kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit)
    value /= 1024;
  return fmt::format("{:.{}f} {}", value, value == std::floor(value) ? 0 : 1, kUnits[unit]);
}

std::string figureText(double value) {
  const int digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}", value, digits);
}

} // namespace braid
