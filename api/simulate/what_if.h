//===- api/simulate/what_if.h - a machine that is other than it is ----------------------------===//
#pragma once

#include "runtime/simulate/cost_model.h"

namespace braid {

/// "link=2x,gemm=0.9x,launch=0": links twice as fast, GEMMs at nine tenths of their speed, launches
/// that cost nothing. whatIfHelp() names what there is. BadInput says what was expected.
Result<CostModel> applyWhatIf(CostModel model, const std::string &text);

/// A line for each: its name, and what its factor multiplies.
std::string whatIfHelp();

} // namespace braid
