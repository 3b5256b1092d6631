//===- api/pairs/matrix.h - a report about pairs as the terminal shows it ---------------------===//
#pragma once

#include "api/pairs/recommend.h"

namespace braid {

struct MatrixOptions {
  bool colours = false;  ///< ANSI, 256 colours; each has its own background, dark or light
  bool allPaths = false; ///< a matrix for each path, after those of the best ones
  size_t columns = 80;   ///< sentences are broken before; matrices are as wide as they are
};

/// Devices, links, bandwidth and latency, verdicts, remarks and recommendations. A row is a source,
/// a column a destination; what failed is a word. More than 16 devices are a summary for each class
/// of link. Lines end without blanks, the text with a new line.
std::string matrixText(const PairReport &report, const std::vector<Verdict> &verdicts,
                       const Recommendations &recommendations, const MatrixOptions &options = {});

} // namespace braid
