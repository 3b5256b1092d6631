//===- runtime/tune/gemm_choice.h - how a device multiplies, as it was measured ---------------===//
//
// Kept in a MeasurementCache under gemmKey() of plan.h, and sent from the rank that measures to
// the others.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

namespace braid {

struct GemmChoice {
  double microseconds = 0; ///< per GEMM, of many in a row
  std::string algorithm;   ///< bytes that mean something to the library that made them

  /// "12.34 0a1b...": one line of printable characters.
  std::string encode() const;
  /// BadInput if `text` is not what encode() makes of a time above 0.
  static Result<GemmChoice> decode(const std::string &text);
};

} // namespace braid
