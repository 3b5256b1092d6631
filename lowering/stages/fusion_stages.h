//===- lowering/stages/fusion_stages.h - the stages of a fusion before lowering ---------------===//
#pragma once

#include "lowering/state.h"

#include <optional>
#include <string>
#include <vector>

namespace braid {

/// A stage with several steps, and so with a choice of schedules.
struct FusionStage {
  std::vector<std::string> tensors = {}; ///< results; a schedule may name the stage by any of them
  /// true if a result is reduced; false if an operand is gathered or nothing moves
  bool isReduction = false;
  /// rows of a step's block on one device, which chunks divide; 0: a vector
  int64_t rows = 0;
  /// All-reduces only: `rows` for the two-shot reduction.
  std::optional<int64_t> rowsInTwoShots = {};
  bool moves = false; ///< true if the stage communicates
  /// Reductions only: true if the GEMMs of a ring may add without rounding intermediate sums. An
  /// all-reduce also needs reduction=two-shot for that.
  bool gemmsMayAdd = false;
};

/// A stage whose transfers a schedule may hide.
struct MovingStage {
  std::string result; ///< the first result of the stage
  Location location;  ///< location of that node, and of all program nodes that move its data
  /// The knob that prevents GEMMs from overlapping the stage's transfers ("granularity=whole"); ""
  /// if no knob does.
  std::string whyWhole;
  bool asksForWhole; ///< true if the user chose a schedule without overlap
};

/// Returns the stages in issue order, configured by `given`; empty if the fusion cannot be lowered
/// with it.
std::vector<MovingStage> movingStagesOf(const Fusion &fusion, const Configurations &given);

/// Returns the stages in issue order. If lowering refuses the fusion, reports why and returns an
/// empty list.
std::vector<FusionStage> stagesOf(const Fusion &fusion, Diagnostics &diags);

} // namespace braid
