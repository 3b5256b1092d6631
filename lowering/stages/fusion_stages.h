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
  int64_t rows = 0;         ///< of a step's block on one device, which chunks divide; 0: a vector
  /// Of an all-reduce: the same in two shots; nothing for what is none.
  std::optional<int64_t> rowsInTwoShots = {};
  bool moves = false;         ///< other devices take part in it
  bool gathersSlices = false; ///< of all devices, by a collective each
  bool hasHosts = false;      ///< several, of several ranks each, which can pass on what came
  bool isOnOneHost = true;
  /// Of a reduction: GEMMs can add what arrives (sums=gemm), and no sum is rounded on its way. An
  /// all-reduce has to be in two shots for that.
  bool gemmsMayAdd = false;
};

/// A stage whose transfers a schedule may hide.
struct MovingStage {
  std::string result; ///< the first tensor that it makes
  Location location;  ///< of that node, and of all nodes of the program that move its data
  /// What keeps GEMMs from running beside its transfers, or "" if nothing is known to:
  /// "granularity=whole"
  std::string whyWhole;
  bool asksForWhole; ///< its schedule was given, and says that nothing is to overlap
};

/// In the order in which they are issued, each with what `given` says about it. None if the fusion
/// cannot be lowered so.
std::vector<MovingStage> movingStagesOf(const Fusion &fusion, const Configurations &given);

/// In the order in which they are issued. Reports what cannot be lowered; there are none then.
std::vector<FusionStage> stagesOf(const Fusion &fusion, Diagnostics &diags);

} // namespace braid
