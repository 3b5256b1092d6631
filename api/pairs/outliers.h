//===- api/pairs/outliers.h - which pairs are unlike their like -------------------------------===//
#pragma once

#include "api/pairs/pair_report.h"

#include "llvm/ADT/ArrayRef.h"

#include <map>
#include <vector>

namespace braid {

/// The figure of one ordered pair, and what is usual for it.
struct PairSample {
  const PairRow *row = nullptr;
  double figure = 0; ///< as measured
  double usual = 1;  ///< the median of all of the same size
  bool isTime = false;

  /// The larger the better; 1 is usual.
  double goodness() const { return isTime ? usual / figure : figure / usual; }
  /// The figure that would be as good as that.
  double figureOf(double goodness) const { return isTime ? usual / goodness : usual * goodness; }
};

/// A sample that stands out, with the figure that was expected of it.
struct Outlier {
  const PairRow *row = nullptr;
  double figure = 0, expected = 0;
};

/// Pairs whose figures ought to be alike: joined by the same class of link of the same nominal
/// rate and count, between parts of the same names. By class; a row is in one of them.
std::vector<std::vector<const PairRow *>> groupsOfLike(const PairReport &report);

/// The bandwidth at each row's largest size, beside the median of that size. Of `rows`, those that
/// have one.
std::vector<PairSample> bandwidthSamples(llvm::ArrayRef<const PairRow *> rows, Path path);
/// The latency at each row's smallest size.
std::vector<PairSample> latencySamples(llvm::ArrayRef<const PairRow *> rows, Path path);

/// Those whose goodness is below `share` of the median, and beyond the scatter. The median is that
/// of pairs whose devices are not slow with everybody, so that one slow device of three does not
/// make it. Fewer than kLeastGroup samples have no outliers.
std::vector<Outlier> outliersOf(llvm::ArrayRef<PairSample> samples, double share);

/// Of samples that are too few for a median: the slower direction of each pair that has both, if
/// its goodness is below `share` of the other's, which is what was expected.
std::vector<Outlier> slowerDirections(llvm::ArrayRef<PairSample> samples, double share);

} // namespace braid
