//===- lowering/stages/sum_gather.h - the second shot of an all-reduce ------------------------===//
//
// Each rank has summed its local rows of a chunk, and sends the sums to all other ranks. With the
// put protocol (left), the sender writes its sums to its result and pushes them to a symmetric
// buffer of the receiver, which copies them to its own result. With the get protocol (right), each
// rank writes its sums to its own symmetric buffer, and its peers fetch them from there:
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
// In the hierarchical order, each rank computes its sums in a symmetric buffer, also receives the
// peers' sums in this buffer, and forwards them from there, like the blocks of a gather.
//
// Pointwise functions of a sum are computed by the rank that computed the sum, on the same rows.
// Only program results and tensors that other stages read are sent: if only pointwise functions
// read a sum, the results of these functions are sent instead.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "lowering/state.h"

namespace braid {

/// Allocates the second shot's symmetric buffers at the builder's insertion point.
void allocateSums(LoweringState &state, Stage &stage, ProgramBuilder &builder);
/// Inserts the loop after the stage's sum. `handles` must include the symmetric buffers.
void insertSumGather(LoweringState &state, Stage &stage, Value *handles);

} // namespace braid
