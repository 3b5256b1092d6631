//===- lowering/stages/reduction.h - partial results that are summed --------------------------===//
//
// A GEMM that contracts over devices leaves a partial result on every one. Each rank multiplies the
// peers' rows first, and pushes each partial result as soon as it is there; its own rows come last.
// The owner adds all parts of a row in the order of ranks:
//
//   %C_parts = allocate symmetric f32[8, 128, 1024]   // of the own rows, a part from each rank
//   %C_sent = allocate device f32[8, 128, 1024]       // of the peers' rows
//   for %c in 0 .. 1 {                                // split-chunks cuts the rows
//     for %i in 1 .. 8 {
//       %slot = select %C_parts[(rank - %i) mod 8]
//       %r = p2p recv %slot from (rank - %i) mod 8 via %h
//       %block = select %A[(rank + %i) mod 8]
//       %part = select %C_sent[(rank + %i) mod 8]
//       matmul %part, %block, %B
//       %s = p2p send %part to (rank + %i) mod 8 via %h
//       wait %s
//       wait %r
//     }
//     %own_block = select %A[rank]
//     %own_part = select %C_parts[rank]
//     matmul %own_part, %own_block, %B
//     %C_sum = select %C[0]
//     sum %C_sum, %C_parts
//   }
//
// In a ring a rank gives its neighbour, rank - 1, the sum of what it has got so far and its own
// part. Every rank begins with another one's rows, and ends with its own: so each sum has its parts
// in another order, and is rounded to their type at each rank.
//
//   %C_parts = allocate symmetric f32[7, 2, 128, 1024]  // what comes in a step, and the own part
//   %C_sent = allocate device f32[7, 128, 1024]         // what goes
//   for %c in 0 .. 1 {
//     %first_block = select %A[(rank + 1) mod 8]
//     %first_part = select %C_sent[0]
//     matmul %first_part, %first_block, %B
//     for %i in 1 .. 8 {
//       %pair = select %C_parts[%i - 1]
//       %slot = select %pair[0]
//       %r = p2p recv %slot from (rank + 1) mod 8 via %h
//       %given = select %C_sent[%i - 1]
//       %s = p2p send %given to (rank - 1) mod 8 via %h
//       wait %s
//       %block = select %A[(rank + %i + 1) mod 8]
//       %part = select %pair[1]
//       matmul %part, %block, %B
//       wait %r
//       if %i != 7 {
//         %next = select %C_sent[%i]
//         sum %next, %pair
//       } else {
//         %C_sum = select %C[0]
//         sum %C_sum, %pair
//       }
//     }
//   }
//
// If GEMMs add (sums=gemm), no kernel does: a GEMM adds the sum that has come to its result before
// that is rounded, so a rank's part is not rounded separately. The first has nothing to add:
//
//   %C_parts = allocate symmetric f32[7, 128, 1024]     // what comes in a step
//   %C_sent = allocate device f32[7, 128, 1024]
//   for %c in 0 .. 1 {
//     %first_slot = select %C_parts[0]
//     %first_r = p2p recv %first_slot from (rank + 1) mod 8 via %h
//     %first_block = select %A[(rank + 1) mod 8]
//     %first_part = select %C_sent[0]
//     matmul %first_part, %first_block, %B
//     %first_s = p2p send %first_part to (rank - 1) mod 8 via %h
//     wait %first_s
//     wait %first_r
//     for %i in 2 .. 8 {
//       %slot = select %C_parts[%i - 1]
//       %r = p2p recv %slot from (rank + 1) mod 8 via %h
//       %block = select %A[(rank + %i) mod 8]
//       %part = select %C_sent[%i - 1]
//       %come = select %C_parts[%i - 2]
//       matmul %part, %block, %B add %come
//       ... the send, and both waits
//     }
//     %own_block = select %A[rank]
//     %come = select %C_parts[6]
//     %C_sum = select %C[0]
//     matmul %C_sum, %own_block, %B add %come
//   }
//
// In a hierarchical order each host adds its parts of a row on the rank that has the owner's number
// there, in the order of its ranks, and rounds the sum once to their type. So one part for each
// host crosses the network, and the owner adds those in the order of hosts. Its own host's
// comes last:
//
//   %C_parts = allocate symmetric f32[2, 4, 128, 1024]   // of a host's rows, a part from each rank
//   %C_sent = allocate device f32[8, 128, 1024]          // what goes to ranks of this host
//   %C_given = allocate device f32[1, 128, 1024]         // sums that go to other hosts
//   %C_host_sums = allocate symmetric f32[2, 128, 1024]  // sums of all hosts
//   for %c in 0 .. 1 {
//     for %host in 1 .. 3 {
//       %parts = select %C_parts[%host - 1]
//       for %i in 1 .. 4 {
//         ... a GEMM of rows of that host, sent to a rank of this one
//       }
//       ... the GEMM of those that are added here
//       if %host != 2 {
//         %given = select %C_given[%host - 1]
//         sum %given, %parts
//         ... sent to rank + 4 * %host
//       } else {
//         %own_sum = select %C_host_sums[rank / 4]
//         sum %own_sum, %parts
//       }
//     }
//     %C_sum = select %C[0]
//     sum %C_sum, %C_host_sums
//   }
//
// Functions of a sum follow it on the same rows. It is then of f32, whatever the parts are of.
//
// Collectives reduce one chunk of all ranks' rows at once, while the next chunk is multiplied. The
// parts of a chunk are contiguous, so all chunks have equally many rows:
//
//   %C_sent = allocate device f32[4, 8, 32, 1024]     // 4 chunks of a block for each rank
//   %C_parts = allocate device f32[4, 1, 32, 1024]
//   for %i in 0 .. 4 {
//     %given = select %C_sent[%i]
//     for %j in 0 .. 8 {
//       %block = select %A[%j]
//       %block_rows = slice %block[%i * 32 .. (%i + 1) * 32]
//       %part = select %given[%j]
//       matmul %part, %block_rows, %B
//     }
//     %come = select %C_parts[%i]
//     %c = collective reduce_scatter sum %come, %given
//     wait %c
//     %C_sum = select %C[0]
//     %C_sum_rows = slice %C_sum[%i * 32 .. (%i + 1) * 32]
//     sum %C_sum_rows, %come
//   }
//
// One chunk is one GEMM. An all-reduce has one block for all ranks, and an allreduce.
//
// If every rank wants the whole sum (an all-reduce), it multiplies its rows once, gives its part to
// everyone, and everyone adds all of them: on two ranks that is as many bytes as two transfers of
// half of it, in one step. Or, in two shots, ranks add the sums of their rows, as above, and gather
// them (sum_gather.h).
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "lowering/state.h"

namespace braid {

/// Makes the stage's buffers, where the builder stands.
void allocateParts(LoweringState &state, Stage &stage, ProgramBuilder &builder);
/// Makes the stage's loops, GEMMs and sum, at the end of the program.
void formReduction(LoweringState &state, Stage &stage);
/// Makes the buffers symmetric that peers reach by the stage's protocol, and returns them.
llvm::SmallVector<Value *, 2> shareParts(const Stage &stage);
/// Fills the stage's loop with the transfers of a step, and makes the second shot if there is one.
void insertReductionTransfers(LoweringState &state, Stage &stage, Value *handles,
                              Value *sumHandles);
/// The same, of a stage that is reduced by collectives.
void insertReductionCollective(LoweringState &state, const Stage &stage);
/// Lets the collective write the result itself, if that has the type of partial results and no bias
/// is added: the stage's sum would only copy. After all passes that look for the sum.
bool reduceIntoResult(Stage &stage);

} // namespace braid
