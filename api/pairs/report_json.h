//===- api/pairs/report_json.h - a report about pairs as JSON, in both directions -------------===//
//
// {
//  "format": "braid p2p", "version": 1, "backend": "cuda", "hostname": "...",
//  "together": {"outcome", "reason"},
//  "devices": [{"name", "uuid", "pci", "numa_node"}, ...],
//  "columns": ["bytes", "latency_us", "GBps"],
//  "pairs": [
//   {"source", "destination",
//    "link": {"class", "count", "nominal_GBps", "no_peer_access"},
//    "paths": {"put-engine": {"outcome", "reason", "points": [[4, 2.1, 0.0019], ...],
//                             "wrong": {"bytes", "round", "offset", "expected", "got", "together"},
//                             "together_GBps"}, ...}},
//   ...],
//  "couples": [
//   {"path", "bytes",
//    "links": [{"source", "destination", "both_ways", "alone_GBps", "together_GBps"}, {...}]},
//   ...],
//  "verdicts": [...], "remarks": [...], "recommendations": {...}
// }
//
// What is empty or not known is left out, as are paths that were not measured. A pair is one line.
// Figures have six digits.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/recommend.h"
#include "api/status.h"

namespace braid {

/// Sizes of one path that a report has.
inline constexpr size_t kMostPairPoints = 64;

/// Counts up with every change after which a reader of the version before would be wrong.
inline constexpr int64_t kPairReportVersion = 1;
/// A file of more devices or a larger one is not read.
inline constexpr size_t kMostPairDevices = 256;
inline constexpr size_t kMostPairReportBytes = size_t(64) << 20;

/// The report with what follows from it, ending in a new line.
std::string encodePairReport(const PairReport &report, const std::vector<Verdict> &verdicts,
                             const Recommendations &recommendations);

/// The report of such a text. Verdicts and recommendations in it are not read: they follow from the
/// report. BadInput says at which place what was expected, and what came; what is accepted names
/// only devices that are there, each ordered pair at most once, and sizes in order.
Result<PairReport> decodePairReport(llvm::StringRef text);

} // namespace braid
