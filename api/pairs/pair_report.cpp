//===- api/pairs/pair_report.cpp - measurements of pairs of devices ---------------------------===//

#include "api/pairs/pair_report.h"

#include "runtime/host_name.h"
#include "runtime/tune/median.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace braid {
namespace {

// Indexed by enum value.
constexpr llvm::StringRef kPathNames[] = {"put-engine", "put-kernel", "get-engine", "get-kernel",
                                          "messages"};
constexpr llvm::StringRef kVerdictNames[] = {"not-measured", "unavailable", "ok",   "slow",
                                             "hung",         "crashed",     "wrong"};
static_assert(std::size(kPathNames) == kAllPaths.size());
static_assert(std::size(kVerdictNames) == static_cast<size_t>(Verdict::Wrong) + 1);

struct Limits {
  double ofMedian;  ///< a path below this fraction of the median is slow
  double ofNominal; ///< a path below this fraction of the nominal rate is slow; 0 if unknown
};

/// Indexed by LinkClass. Based on published results: NVLink on H100 reaches 376 to 392 of 450 GB/s,
/// and PCIe 4.0 x16 behind a switch reaches 25.5 to 26.5 of 31.5 GB/s. Across root complexes or
/// sockets, some healthy machines reach a third of the nominal rate.
constexpr Limits kLimits[] = {{0.85, 0},   {0.85, 0.72}, {0.85, 0.72}, {0.6, 0.22},
                              {0.6, 0.22}, {0.6, 0.22},  {0.85, 0}};
static_assert(std::size(kLimits) == static_cast<size_t>(LinkClass::Unknown) + 1);
/// CPU ranks share the machine with other work: on a busy machine, one pair reached only a third of
/// the median.
constexpr Limits kCpuLimits = {0.25, 0};

const Limits &limitsOf(const PairReport &report, LinkClass link) {
  return report.backend == "cpu" ? kCpuLimits : kLimits[static_cast<size_t>(link)];
}

void expect(PathReport &path, double least, double usual, const std::string &what) {
  const PathPoint point = path.points.back();
  if (point.GBps < least)
    path.worsen(Verdict::Slow,
                fmt::format("{} GB/s at {}, expected about {}{}", figureText(point.GBps),
                            sizeText(point.bytes), figureText(usual), what));
}

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
PairRow &PairReport::row(size_t source, size_t destination) {
  return rows[source * (devices.size() - 1) + destination - (destination > source ? 1 : 0)];
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

/// A path is slow if its largest transfers are much slower than the median of comparable transfers,
/// which have the same path and size, and the same link class and nominal rate. The fastest path of
/// a pair is also slow if it is slower than healthy links with the same nominal rate.
void judge(PairReport &report) {
  constexpr int64_t kLeastBytes = int64_t(1) << 20; // latency dominates smaller transfers
  using Like = std::tuple<LinkClass, double, Path, int64_t>;
  std::map<Like, std::vector<PathReport *>> alike;
  for (PairRow &row : report.rows)
    for (Path path : kAllPaths)
      if (PathReport &on = row.on(path);
          on.verdict == Verdict::Ok && on.points.back().bytes >= kLeastBytes)
        alike[{row.link.kind, row.link.nominalGBps, path, on.points.back().bytes}].push_back(&on);
  for (const auto &[like, paths] : alike) {
    std::vector<double> figures;
    for (const PathReport *path : paths)
      figures.push_back(path->points.back().GBps);
    const double usual = median(figures),
                 least = limitsOf(report, std::get<LinkClass>(like)).ofMedian;
    for (PathReport *path : paths)
      expect(*path, least * usual, usual, ", the median of similar pairs");
  }
  for (PairRow &row : report.rows) {
    const double nominal = row.link.nominalGBps;
    const double least = limitsOf(report, row.link.kind).ofNominal * nominal;
    // A transfer saturates the link only if it takes long enough.
    constexpr double kSaturatedUs = 100, kBytesOfGBpsAndUs = 1e3;
    const std::optional<Path> fastest = row.fastest();
    if (fastest && static_cast<double>(row.on(*fastest).points.back().bytes) >=
                       nominal * kSaturatedUs * kBytesOfGBpsAndUs)
      expect(row.on(*fastest), least, least,
             fmt::format(" for a link of {} GB/s ({})", figureText(nominal),
                         name(row.link.kind).str()));
  }
}

} // namespace braid
