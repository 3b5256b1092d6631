//===- api/pairs/measuring_job.h - what the ranks of one job are to measure -------------------===//
#pragma once

#include "api/pairs/pair_names.h"
#include "api/status.h"

namespace braid {

/// An ordered pair over one path.
struct PairWork {
  int64_t source = 0, destination = 0; ///< devices
  Path path = Path::PutEngine;
  std::vector<int64_t> sizes; ///< bytes, ascending
  bool operator==(const PairWork &) const = default;
};

/// All pairs at once, over one path, but for some.
struct TogetherWork {
  Path path = Path::PutEngine;
  int64_t bytes = 0;
  /// Pairs (source, destination) that take no part.
  std::vector<std::pair<int64_t, int64_t>> without;
  bool operator==(const TogetherWork &) const = default;
};

/// Rank r has devices[r]. Every rank reads this from its standard input.
struct MeasuringJob {
  std::string backend;
  std::vector<int64_t> devices;
  int64_t timeoutMs = 20000;
  /// For what is measured between two devices over one path: no size is begun that would, from what
  /// the sizes before took, end later.
  double seconds = 1;
  std::vector<PairWork> pairs;
  std::vector<TogetherWork> together;
  bool operator==(const MeasuringJob &) const = default;

  std::string encode() const;
  /// BadInput for what encode() does not make of a job in which every device of a piece of work has
  /// a rank, sizes are positive multiples of 4, and numbers are sensible.
  static Result<MeasuringJob> decode(const std::string &text);
};

inline constexpr int64_t kLeastTransfer = 4, kMostTransfer = int64_t(1) << 40;

} // namespace braid
