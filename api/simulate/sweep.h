//===- api/simulate/sweep.h - how predictions grow --------------------------------------------===//
#pragma once

#include "api/simulate/simulate_program.h"

namespace braid {

struct SweepPoint {
  int64_t value = 0;
  size_t curve = 0; ///< 1: the schedule beside
  std::string schedule;
  MachinePrediction prediction;
};
struct Sweep {
  std::string name;    ///< "ranks", "M"
  std::string machine; ///< for people
  std::vector<SweepPoint> points;
  std::vector<std::string> curves = {}; ///< their names, where there are several
};

/// "ranks=2..1024": 2, 4, ... up to 1024. BadInput says what was expected.
Result<std::pair<std::string, std::vector<int64_t>>> parseSweep(const std::string &text);

/// A line for each point, below one with the names of the columns.
std::string toCsv(const Sweep &sweep);
/// Time and a rank's memory on logarithmic scales, and E, over the value.
std::string toSvg(const Sweep &sweep);

} // namespace braid
