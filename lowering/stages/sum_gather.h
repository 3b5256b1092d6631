//===- lowering/stages/sum_gather.h - the second shot of an all-reduce ------------------------===//
//
// Ranks have added their own rows of a chunk, and give the sums to all others. Under put they go
// from the result, where the sum has left them, to a buffer that peers reach, and from there to the
// result; under get the sum leaves them in such a buffer, from where peers fetch them:
//
//   sum %C_sum, %C_parts                            sum %mine, %C_parts
//   for %i in 1 .. 8 {                              for %i in 1 .. 8 {
//     %slot = select %C_sums[(rank - %i) mod 8]       %s = p2p send %mine to (rank + %i) mod 8
//     %r = p2p recv %slot from (rank - %i) mod 8      %theirs = select %C[(rank - %i) mod 8]
//     %s = p2p send %C_sum to (rank + %i) mod 8       %r = p2p recv %theirs from (rank - %i) mod 8
//     wait %s                                         wait %r
//     wait %r                                         wait %s
//     %theirs = select %C[(rank - %i) mod 8]        }
//     set %theirs, %slot                            set %C_sum, %mine
//   }
//
// In a hierarchical order sums are made in such a buffer, come to it, and are passed on from it, as
// blocks are in a gather.
//
// Functions of the sum are computed by who has added, on the same rows, and it is what others read
// that is given: of a sum that only functions take, what they make of it.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "lowering/state.h"

namespace braid {

/// Makes the buffer that peers reach, where the builder stands.
void allocateSums(LoweringState &state, Stage &stage, ProgramBuilder &builder);
/// Makes the loop behind the stage's sum. The buffer is one of the handles'.
void insertSumGather(LoweringState &state, Stage &stage, Value *handles);

} // namespace braid
