//===- lowering/stages/reduction.h - reductions of partial results ----------------------------===//
//
// A GEMM that contracts over devices yields a partial result on every device. Each rank computes
// the peers' rows first, pushing each partial result as soon as it is complete, and its local rows
// last. The owner of a row adds all of the row's partial results in rank order:
//
//   %C_parts = allocate symmetric f32[8, 128, 1024]   // local rows: a partial sum per rank
//   %C_sent = allocate device f32[8, 128, 1024]       // peers' rows
//   for %c in 0 .. 1 {                                // split-chunks sets the number of chunks
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
// In a ring, a rank adds its local partial result to the sum it has received, and sends the new sum
// to its neighbor, rank - 1. Every rank starts with the rows of rank + 1 and ends with its local
// rows. The order of addition therefore depends on a row's owner, and each rank rounds the
// intermediate sum. There is no separate addition kernel: each GEMM adds the received sum to its
// result before rounding. The first GEMM has no addend:
//
//   %C_parts = allocate symmetric f32[7, 128, 1024]     // received sums, one per step
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
// If the result does not have the partial type, or has a bias or pointwise functions, the last GEMM
// writes to %C_own instead, and `sum %C_sum, %C_own` follows.
//
// In the hierarchical order, each host sums its partial results for a row on the rank that has the
// owner's local index, in rank order, and rounds the sum once to the partial type. Therefore, only
// one partial sum per host crosses the network, and the owner adds these sums in host order. Each
// host processes the rows of its own ranks last:
//
//   %C_parts = allocate symmetric f32[2, 4, 128, 1024]   // per host: one addend per local rank
//   %C_sent = allocate device f32[8, 128, 1024]          // partial sums for ranks of this host
//   %C_given = allocate device f32[1, 128, 1024]         // sums for other hosts
//   %C_host_sums = allocate symmetric f32[2, 128, 1024]  // sums of all hosts
//   for %c in 0 .. 1 {
//     for %host in 1 .. 3 {
//       %parts = select %C_parts[%host - 1]
//       for %i in 1 .. 4 {
//         ... a GEMM of rows of that host, sent to a rank of this host
//       }
//       ... the GEMM of the rows that this rank sums
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
// Pointwise functions follow the sum, on the same rows. The sum is then f32, regardless of the
// partial type.
//
// A collective reduces one chunk of all ranks' rows while GEMMs compute the next chunk. The partial
// sums of a chunk must be contiguous, so all chunks have the same number of rows:
//
//   %C_sent = allocate device f32[4, 8, 32, 1024]     // 4 chunks of each rank's block
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
// A single chunk needs only one GEMM. An all-reduce has one block for all ranks and uses the
// allreduce collective.
//
// In an all-reduce, every rank needs the full sum. In one shot, each rank sends its partial result
// to all others and adds all partial results. On two ranks, this moves as many bytes as a two-shot
// reduction, but in a single step. In two shots, each rank sums its local rows as above, and the
// ranks then gather the sums (sum_gather.h).
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "lowering/state.h"

namespace braid {

/// Returns true if the last GEMM in a ring can write the stage's result directly. Otherwise, its
/// result has the partial type, and a `sum` with this single part, followed by any pointwise
/// functions, adds the bias and rounds.
bool canEndInGemm(const Stage &stage);
/// Allocates the stage's buffers at the builder's insertion point.
void allocateParts(LoweringState &state, Stage &stage, ProgramBuilder &builder);
/// Emits the stage's loops, GEMMs and sum at the end of the program.
void formReduction(LoweringState &state, Stage &stage);
/// Returns the buffers that peers access under the stage's protocol, after making them symmetric.
llvm::SmallVector<Value *, 2> shareParts(const Stage &stage);
/// Inserts a step's transfers into the stage's loop, and the second shot if the stage has one.
void insertReductionTransfers(LoweringState &state, Stage &stage, Value *handles,
                              Value *sumHandles);
/// Same, for a collective reduction.
void insertReductionCollective(LoweringState &state, const Stage &stage);
/// If the stage's sum would only copy (the result has the partial type and there is no bias),
/// removes the sum and makes the collective write the result. Must run after all passes that use
/// the sum. Returns true if the program changed.
bool reduceIntoResult(Stage &stage);

} // namespace braid
