//===- api/pairs/measurement.h - what ranks say while they measure, line by line --------------===//
//
// The ranks of a job write lines into one pipe, each by a single write of fewer bytes than a pipe
// takes as a whole. A rank may die at any point; nothing is said twice, and what was said counts.
//
//   device 3 GPU-8f2a... NVIDIA H200, driver ...     rank 3 has this one
//   begin 3 5 put-engine 1048576                     devices 3 and 5 are about to transfer
//   bandwidth 3 5 put-engine 1048576 381.2           GB/s
//   latency 3 5 put-engine 1048576 6.1               us
//   wrong 3 5 put-engine 1048576 2 4096 17 18        round, offset, expected, got
//   unavailable 3 5 put-kernel the backend has one copy engine
//   together 3 5 put-engine 1048576 377.9 0          GB/s while others run; the number of the work
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/pair_names.h"
#include "api/status.h"

namespace braid {

/// One line.
struct Measurement {
  enum class Kind : uint8_t { Device, Begin, Bandwidth, Latency, Wrong, Unavailable, Together };
  Kind kind = Kind::Begin;
  int64_t source = 0, destination = 0; ///< devices; of a Device, its number and 0
  Path path = Path::PutEngine;
  int64_t bytes = 0;
  double value = 0;     ///< GB/s or us
  int64_t work = 0;     ///< Together: which of MeasuringJob::together
  WrongData wrong = {}; ///< Wrong; its `bytes` are those above
  std::string text;     ///< Device: identity, a space, and the description; Unavailable: why

  /// With a line break. Of texts, control characters become spaces, and what is too long is cut.
  std::string encode() const;
  /// BadInput for any other line; without its line break.
  static Result<Measurement> decode(llvm::StringRef line);
};

inline constexpr size_t kMostMeasurementText =
    400; ///< of a line; a pipe takes 4096 bytes as a whole

} // namespace braid
