//===- api/pairs/judge.cpp - finds slow pairs -------------------------------------------------===//
//
// A path is slow if its largest transfers are much slower than the median of comparable transfers:
// the same path and size, between pairs with the same link class and nominal rate. The fastest path
// of a pair is also slow if it is slower than healthy links with the same nominal rate.
//
//===----------------------------------------------------------------------------------------===//

#include "api/pairs/pair_report.h"
#include "runtime/tune/median.h"

#include <fmt/format.h>

#include <map>

namespace braid {
namespace {

struct Limits {
  double ofMedian;  ///< a path below this fraction of the median is slow
  double ofNominal; ///< a path below this fraction of the nominal rate is slow; 0 if unknown
};

/// Based on published results: NVLink on H100 reaches 376 to 392 of 450 GB/s, and PCIe 4.0 x16
/// behind a switch reaches 25.5 to 26.5 of 31.5 GB/s. Across root complexes or sockets, some
/// healthy machines reach a third of the nominal rate. CPU ranks share the machine with other work:
/// on a busy machine, one pair reached only a third of the median.
Limits limitsOf(const PairReport &report, const PairRow &row) {
  if (report.backend == "cpu")
    return {0.25, 0};
  switch (row.link.kind) {
  case LinkClass::NvLink:
  case LinkClass::PcieSwitch:
    return {0.85, 0.72};
  case LinkClass::HostBridge:
  case LinkClass::SameNuma:
  case LinkClass::CrossNuma:
    return {0.6, 0.22};
  case LinkClass::Own:
  case LinkClass::Unknown:
    break;
  }
  return {0.85, 0};
}

/// Returns the point with the largest size, or null if latency dominates its time.
const PathPoint *judgedPoint(const PathReport &path) {
  constexpr int64_t kLeastBytes = int64_t(1) << 20;
  const bool isJudged = path.verdict == Verdict::Ok && path.points.back().bytes >= kLeastBytes;
  return isJudged ? &path.points.back() : nullptr;
}

/// Returns true if a transfer of `bytes` is long enough to saturate a link of `nominalGBps`.
bool fillsLink(int64_t bytes, double nominalGBps) {
  constexpr double kLeastUs = 100, kBytesOfGBpsAndUs = 1e3;
  return static_cast<double>(bytes) >= nominalGBps * kLeastUs * kBytesOfGBpsAndUs;
}

void expect(PathReport &path, double least, double usual, const std::string &what) {
  const PathPoint point = path.points.back();
  if (point.GBps < least)
    path.worsen(Verdict::Slow,
                fmt::format("{} GB/s at {}, expected about {}, {}", figureText(point.GBps),
                            sizeText(point.bytes), figureText(usual), what));
}

} // namespace

void judge(PairReport &report) {
  using Like = std::tuple<LinkClass, double, Path, int64_t>;
  std::map<Like, std::vector<double>> figures;
  const auto likeOf = [](const PairRow &row, Path path, int64_t bytes) {
    return Like{row.link.kind, row.link.nominalGBps, path, bytes};
  };
  for (const PairRow &row : report.rows)
    for (Path path : kAllPaths)
      if (const PathPoint *point = judgedPoint(row.on(path)))
        figures[likeOf(row, path, point->bytes)].push_back(point->GBps);
  for (PairRow &row : report.rows) {
    const Limits limits = limitsOf(report, row);
    for (Path path : kAllPaths)
      if (const PathPoint *point = judgedPoint(row.on(path))) {
        const double usual = median(figures[likeOf(row, path, point->bytes)]);
        expect(row.on(path), limits.ofMedian * usual, usual, "the median of similar pairs");
      }
    const std::optional<Path> fastest = row.fastest();
    const double nominal = row.link.nominalGBps, least = limits.ofNominal * nominal;
    if (fastest && fillsLink(row.on(*fastest).points.back().bytes, nominal))
      expect(row.on(*fastest), least, least,
             fmt::format("for a link of {} GB/s ({})", figureText(nominal),
                         name(row.link.kind).str()));
  }
}

} // namespace braid
