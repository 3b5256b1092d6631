//===- api/pairs/heat_map.h - a report about pairs as a picture and as a page -----------------===//
#pragma once

#include "api/pairs/recommend.h"

namespace braid {

/// One SVG without script: the bandwidth of each pair's fastest path at its largest size, with a
/// scale, the devices' names and marks for what failed.
std::string heatMapSvg(const PairReport &report, const std::vector<Verdict> &verdicts);

/// One page that needs nothing else: verdicts and recommendations as sentences, and a heat map of
/// any path, measure and size, with the figures of the cell that is pointed at or focused.
std::string heatMapHtml(const PairReport &report, const std::vector<Verdict> &verdicts,
                        const Recommendations &recommendations);

} // namespace braid
