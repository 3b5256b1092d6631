//===- runtime/check/difference.h - describes how an output differs from its definition -------===//
#pragma once

#include "runtime/check/definition.h"

namespace braid::checker {

/// The first bytes of an output whose contents differ from the definition.
struct Difference {
  int64_t at = 0, bytes = 0; ///< the bytes that differ and have the same origin
  std::string summary;
  /// The actual and the expected contents and, for sums, the addends that are missing, unexpected
  /// or added twice, or the order of the additions.
  std::vector<std::string> notes;
  /// True if both contents are GEMMs of the same rows with different second operands.
  bool hasOtherFactor = false;
};

/// Finds the first difference between the contents of `output` in `run` and the expected contents.
/// `got` and `expected` must differ.
Difference findDifference(const Terms &terms, const Definition &definition,
                          const FusionTensor &output, uint32_t run, const Pieces &got,
                          const Pieces &expected);

} // namespace braid::checker
