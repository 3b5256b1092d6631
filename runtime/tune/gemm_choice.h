//===- runtime/tune/gemm_choice.h - the measured algorithm of a GEMM --------------------------===//
//
// Stored in a MeasurementCache under gemmKey() of plan.h, and sent from the measuring rank to the
// others.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

namespace braid {

struct GemmChoice {
  double microseconds = 0; ///< per GEMM, in a series
  std::string algorithm;   ///< opaque data of the GEMM library

  /// Encodes the choice as one line of printable characters, "12.34 0a1b...".
  std::string encode() const;
  /// Returns BadInput unless encode() produces `text` for some positive time.
  static Result<GemmChoice> decode(const std::string &text);
};

} // namespace braid
