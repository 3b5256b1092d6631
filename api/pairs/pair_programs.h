//===- api/pairs/pair_programs.h - programs that move blocks between ranks --------------------===//
//
// Texts, made into Plans as any other program. A rank has rows of blocks in symmetric memory: those
// that it sends, and behind them those that it receives. Transfer number i moves block i mod slots
// of its row.
//
// Between transfers of one direction nothing has to be said but at the ends: the first one needs
// to hear that the other side is there, and the last one says that all have arrived. So other
// signals are taken out of the Plans. What is left is a loop of copies, as one would write it.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/blocks.h"
#include "api/pairs/moves.h"
#include "api/pairs/path_recipe.h"
#include "runtime/plan/plan.h"

namespace braid {

/// Not Path::Host, which no program can say.
struct BlockTransfers {
  int64_t ranks = 2;
  Path path = Path::PutEngine;
  BlockShape shape;
  int64_t count = 1; ///< of each pair that runs
};

/// The Plans of all ranks. One way, and there and back, all is on stream 0. Together, what rank r
/// does with rank (r + k) mod ranks is on a stream of its own: stream k if r sends, and stream
/// ranks + k if r receives from rank (r - k) mod ranks. These streams are not joined in the end. Of
/// messages, which go in groups, two ranks at most.
Result<std::vector<Plan>> blockPlans(const BlockTransfers &transfers, const Moves &moves);

} // namespace braid
