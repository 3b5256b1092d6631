//===- lowering/stages/wave_gemms.h - the GEMMs of coalesced, cut where waves end -------------===//
//
//   %own_rows = slice %own[... .. ...]         // the whole waves of the own block
//   matmul %C_0, %own_rows, %B
//   set_current_stream stream(1)
//   if ... { set %slot, %rest }                // what is left of it, for the GEMMs to come
//   set_current_stream stream(3)
//   wait %r_1
//   set_current_stream stream(2)
//   synchronize stream(3)                      // the last GEMM takes some of it, too ...
//   set_current_stream stream(3)
//   synchronize stream(1)                      // ... and both take some of the own block
//   %blocks_1 = slice %A_rows[... .. ...]
//   matmul %C_1, %blocks_1, %B                 // ... but need not wait for this
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "lowering/stages/block_rows.h"
#include "lowering/stages/wave_cuts.h"

#include <optional>

namespace braid {

/// The stream of a stage's GEMM `number`; 0 is that of the own block.
int64_t gemmStream(const Stage &stage, int64_t number);

/// Emits the GEMMs of one stage where its builder stands. In this order: emitOwn, copyRest, and
/// emit for each later GEMM, behind the waits for its blocks.
class WaveGemms {
public:
  /// Nothing if the stage's GEMMs take their blocks, no more and no less. All outlive this.
  static std::optional<WaveGemms> of(LoweringState &state, Stage &stage, ProgramBuilder &builder);

  /// In place of the GEMMs of the whole own block.
  void emitOwn();
  /// The own rows that later GEMMs take, into their slot of what is gathered, unless they are
  /// there. `before`: the node behind the insertion point.
  void copyRest(Op &before);
  void emit(size_t number);

private:
  WaveGemms(LoweringState &state, Stage &stage, ProgramBuilder &builder, WaveCuts cuts)
      : state_(state), stage_(stage), scalars_(state.program->scalars()), builder_(builder),
        cuts_(std::move(cuts)), ranges_(state, stage, builder) {}

  void emitOn(size_t number, Value *operand);
  void copyOwn(const std::string &part, const Scalar *begin, const Scalar *end);
  void letLaterOnesWait(size_t number, int64_t stream);
  int64_t restStream() const;
  void useStream(int64_t stream);
  void synchronize(int64_t stream);

  LoweringState &state_;
  Stage &stage_;
  ScalarContext &scalars_;
  ProgramBuilder &builder_;
  WaveCuts cuts_;
  BlockRanges ranges_;
};

} // namespace braid
