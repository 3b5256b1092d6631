//===- api/pairs/outliers.cpp - which pairs are unlike their like -----------------------------===//

#include "api/pairs/outliers.h"

#include "api/pairs/pair_figures.h"
#include "api/pairs/verdict_limits.h"

#include <cmath>
#include <tuple>

namespace braid {
namespace {

using PickPoint = const PathPoint *(*)(const PathReport &);

std::vector<PairSample> samplesAt(llvm::ArrayRef<const PairRow *> rows, Path path, PickPoint pick,
                                  double PathPoint::*field, bool isTime) {
  std::map<int64_t, std::vector<double>> ofSize;
  for (const PairRow *row : rows)
    if (const PathPoint *point = pick(on(*row, path)))
      ofSize[point->bytes];
  for (const PairRow *row : rows)
    if (on(*row, path).outcome == PathOutcome::Measured)
      for (const PathPoint &point : on(*row, path).points)
        if (auto found = ofSize.find(point.bytes); found != ofSize.end() && point.*field > 0)
          found->second.push_back(point.*field);
  std::map<int64_t, double> usual;
  for (auto &[bytes, figures] : ofSize)
    usual[bytes] = medianOf(std::move(figures));
  std::vector<PairSample> samples;
  for (const PairRow *row : rows)
    if (const PathPoint *point = pick(on(*row, path)))
      samples.push_back({row, point->*field, usual[point->bytes], isTime});
  return samples;
}

/// The best that each device does with anybody, and with how many it was tried.
struct BestOfDevice {
  double goodness = 0;
  int64_t pairs = 0;

  void add(double value) {
    goodness = std::max(goodness, value);
    ++pairs;
  }
};

/// Which devices are slow with everybody, as sources and as destinations.
class SlowEnds {
public:
  SlowEnds(llvm::ArrayRef<PairSample> samples, double share) {
    for (const PairSample &sample : samples) {
      from_[sample.row->source].add(sample.goodness());
      to_[sample.row->destination].add(sample.goodness());
    }
    std::vector<double> all;
    for (const auto *ends : {&from_, &to_})
      for (const auto &[device, best] : *ends)
        all.push_back(best.goodness);
    least_ = share * medianOf(std::move(all));
  }
  bool has(const PairRow &row) const {
    return isSlow(from_.at(row.source)) || isSlow(to_.at(row.destination));
  }

private:
  // One pair alone may be slow for what its other end is.
  bool isSlow(const BestOfDevice &best) const { return best.pairs > 1 && best.goodness < least_; }

  std::map<int64_t, BestOfDevice> from_, to_;
  double least_ = 0;
};

/// Of the better half: what is slow does not widen it.
double scatterOf(llvm::ArrayRef<double> values, double median) {
  std::vector<double> distances;
  for (double value : values)
    if (value >= median)
      distances.push_back(value - median);
  return kScatterOfMad * medianOf(std::move(distances));
}

} // namespace

std::vector<std::vector<const PairRow *>> groupsOfLike(const PairReport &report) {
  using Like = std::tuple<LinkClass, int64_t, int64_t, std::string, std::string>;
  const auto count = static_cast<int64_t>(report.devices.size());
  auto nameOf = [&](int64_t device) { return report.devices[static_cast<size_t>(device)].name; };
  auto isThere = [&](int64_t device) { return device >= 0 && device < count; };
  std::map<Like, std::vector<const PairRow *>> groups;
  for (const PairRow &row : report.rows) {
    if (!isThere(row.source) || !isThere(row.destination) || row.source == row.destination)
      continue;
    // Rates that are computed in other ways may differ in their last digits.
    const int64_t tenths = std::llround(std::min(row.link.nominalGBps, 1e9) * 10);
    groups[{row.link.kind, tenths, row.link.count, nameOf(row.source), nameOf(row.destination)}]
        .push_back(&row);
  }
  std::vector<std::vector<const PairRow *>> all;
  for (auto &[like, rows] : groups)
    all.push_back(std::move(rows));
  return all;
}

std::vector<PairSample> bandwidthSamples(llvm::ArrayRef<const PairRow *> rows, Path path) {
  return samplesAt(rows, path, largestPoint, &PathPoint::GBps, /*isTime=*/false);
}

std::vector<PairSample> latencySamples(llvm::ArrayRef<const PairRow *> rows, Path path) {
  return samplesAt(rows, path, smallestPoint, &PathPoint::latencyUs, /*isTime=*/true);
}

std::vector<Outlier> outliersOf(llvm::ArrayRef<PairSample> samples, double share) {
  if (samples.size() < kLeastGroup)
    return {};
  const SlowEnds slow(samples, share);
  std::vector<double> rest;
  for (const PairSample &sample : samples)
    if (!slow.has(*sample.row))
      rest.push_back(sample.goodness());
  if (rest.empty())
    return {};
  const double median = medianOf(rest);
  const double scattered = std::min(kScatters * scatterOf(rest, median), kMostScatter * median);
  const double least = std::min(share * median, median - scattered);
  std::vector<Outlier> outliers;
  for (const PairSample &sample : samples)
    if (sample.goodness() < least)
      outliers.push_back({sample.row, sample.figure, sample.figureOf(median)});
  return outliers;
}

std::vector<Outlier> slowerDirections(llvm::ArrayRef<PairSample> samples, double share) {
  std::map<std::pair<int64_t, int64_t>, const PairSample *> ofPair;
  for (const PairSample &sample : samples)
    ofPair[{sample.row->source, sample.row->destination}] = &sample;
  std::vector<Outlier> slower;
  for (const PairSample &sample : samples) {
    auto other = ofPair.find({sample.row->destination, sample.row->source});
    if (other != ofPair.end() && sample.goodness() < share * other->second->goodness())
      slower.push_back({sample.row, sample.figure, other->second->figure});
  }
  return slower;
}

} // namespace braid
