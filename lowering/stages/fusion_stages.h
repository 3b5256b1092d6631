//===- lowering/stages/fusion_stages.h - the stages of a fusion, before it is lowered ---------===//
#pragma once

#include "lowering/state.h"

#include <optional>
#include <string>
#include <vector>

namespace braid {

/// A stage that has steps, so that there is something to choose for it.
struct FusionStage {
  std::vector<std::string> tensors = {}; ///< that it makes: a schedule calls it by any of them
  bool isReduction = false; ///< a result is reduced; else an operand is gathered, or nothing moves
  int64_t rows = 0;         ///< in a step's block on one device, which chunks divide; 0: a vector
  /// All-reduces only: the same number in two shots.
  std::optional<int64_t> rowsInTwoShots = {};
  bool moves = false;         ///< other devices take part in it
  bool gathersSlices = false; ///< one collective brings a slice of every device's block
  bool hasHosts = false;      ///< several, of several ranks each, which can pass on what came
  bool isOnOneHost = true;
  /// Reductions only: GEMMs can add the sums that arrive (sums=gemm), and no sum is rounded on its
  /// way. An all-reduce must use two shots for that.
  bool gemmsMayAdd = false;
};

/// A stage whose transfers a schedule may hide.
struct MovingStage {
  std::string result; ///< the first tensor that it makes
  Location location;  ///< the place of that node, and of all program nodes that move its data
  /// The knob that keeps GEMMs from running beside its transfers ("granularity=whole"), or "" if no
  /// such knob is known.
  std::string whyWhole;
  bool asksForWhole; ///< its schedule was given, and says that nothing is to overlap
};

/// In the order in which they are issued, each with what `given` says about it. None if the fusion
/// cannot be lowered so.
std::vector<MovingStage> movingStagesOf(const Fusion &fusion, const Configurations &given);

/// In the order in which they are issued. Reports what cannot be lowered; there are none then.
std::vector<FusionStage> stagesOf(const Fusion &fusion, Diagnostics &diags);

} // namespace braid
