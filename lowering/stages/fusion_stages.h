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
  std::string notOverlapped{}; ///< why no schedule hides its transfers; "" if one may
};

/// "%C is not overlapped: ...", of a gather of what is not streamed.
std::string whyNotOverlapped(const Stage &stage);

/// In the order in which they are issued. Reports what cannot be lowered; there are none then.
std::vector<FusionStage> stagesOf(const Fusion &fusion, Diagnostics &diags);

} // namespace braid
