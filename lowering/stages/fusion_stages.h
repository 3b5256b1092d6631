//===- lowering/stages/fusion_stages.h - the stages of a fusion before lowering ---------------===//
#pragma once

#include "lowering/state.h"

#include <optional>
#include <string>
#include <vector>

namespace braid {

/// A stage with more than one step, for which several schedules are possible.
struct FusionStage {
  std::vector<std::string> tensors = {}; ///< results; a schedule may name the stage by any of them
  /// true if a result is reduced; false if an operand is gathered or no data moves
  bool isReduction = false;
  /// rows in a step's block on one device, which may be split into chunks; 0 for a vector
  int64_t rows = 0;
  /// For all-reduces only: the value of `rows` under reduction=two-shot.
  std::optional<int64_t> rowsInTwoShots = {};
  bool moves = false; ///< true if the stage communicates
  /// For reductions only: true if GEMMs can add partial results in a ring without rounding
  /// intermediate sums. An all-reduce also requires reduction=two-shot.
  bool gemmsMayAdd = false;
  bool isShared = false; ///< true if several GEMMs share a gather, which stepwise=first requires
};

/// A stage whose transfers can overlap with GEMMs under some schedules.
struct MovingStage {
  std::string result; ///< the first result of the stage
  Location location;  ///< location of the node that defines `result`, and of the data movement
  /// The reason why no GEMM overlaps the stage's transfers, such as "granularity=whole", or "" if
  /// GEMMs can overlap them.
  std::string whyWhole;
  bool asksForWhole; ///< true if the user chose a schedule without overlap
};

/// Returns the stages in issue order, configured by `given`, or an empty list if the fusion cannot
/// be lowered with `given`.
std::vector<MovingStage> movingStagesOf(const Fusion &fusion, const Configurations &given);

/// Returns the stages in issue order. If lowering rejects the fusion, reports the reason and
/// returns an empty list.
std::vector<FusionStage> stagesOf(const Fusion &fusion, Diagnostics &diags);

} // namespace braid
