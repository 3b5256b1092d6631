//===- api/pairs/pair_programs.h - programs that move blocks between ranks --------------------===//
//
// Texts, made into Plans as any other program. A rank has two rows of blocks in symmetric memory:
// what it sends, and what it receives. Transfer number i moves block i mod slots.
//
//   one way          a block to one rank, `count` times
//   there and back   the same, each answered by a block, before the next one
//   ring             every rank to the one `shift` further on, at the same time
//
// Between transfers of one direction nothing has to be said but at the ends: the first one needs
// to hear that the other side is there, and the last one says that all have arrived. So other
// signals are taken out of the Plans. What is left is a loop of copies, as one would write it.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/blocks.h"
#include "api/pairs/path.h"
#include "runtime/plan/plan.h"

namespace braid {

/// Not Path::Host, which no program can say.
struct BlockTransfers {
  int64_t ranks = 2;
  Path path = Path::PutEngine;
  BlockShape shape;
  int64_t count = 1;
};

/// The Plans of all ranks: `source` sends to `destination`.
Result<std::vector<Plan>> oneWayPlans(const BlockTransfers &transfers, int64_t source,
                                      int64_t destination);
/// `source` sends, `destination` answers. Of two ranks.
Result<std::vector<Plan>> thereAndBackPlans(const BlockTransfers &transfers, int64_t source,
                                            int64_t destination);
/// Each rank sends to (rank + shift) mod ranks, but for `silent` sources. Stream 0 has the copies of
/// a rank, or its messages; where its peers copy, it waits on a stream of its own. So the time of
/// stream 0 is that of the rank's own copies. Messages go in groups, so nobody is silent then.
Result<std::vector<Plan>> ringPlans(const BlockTransfers &transfers, int64_t shift,
                                    const std::vector<int64_t> &silent);

/// The rank that copies; of messages, the one where they arrive.
inline int64_t copyingRank(Path path, int64_t source, int64_t destination) {
  const bool isDestination =
      path == Path::Messages || recipeOf(path).protocol == Protocol::Get;
  return isDestination ? destination : source;
}

} // namespace braid
