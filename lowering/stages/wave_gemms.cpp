//===- lowering/stages/wave_gemms.cpp - the GEMMs of coalesced, cut where waves end -----------===//

#include "lowering/stages/wave_gemms.h"

#include "lowering/emit.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace braid {

int64_t gemmStream(const Stage &stage, int64_t number) {
  return stage.transferStreams + number % (stage.streams - stage.transferStreams);
}

std::optional<WaveGemms> WaveGemms::of(LoweringState &state, Stage &stage,
                                       ProgramBuilder &builder) {
  const int64_t waveRows = stage.config.waveRows();
  const bool hasHalves = stage.steps > 1 && llvm::isPowerOf2_64(static_cast<uint64_t>(stage.steps));
  if (waveRows == 0 || stage.rows == 0 || !hasHalves)
    return std::nullopt;
  WaveCuts cuts(state.program->scalars(), stage.steps, stage.rows, waveRows,
                stage.halvesLastGemm());
  if (!cuts.movesRows())
    return std::nullopt;
  return WaveGemms(state, stage, builder, std::move(cuts));
}

/// GEMM `number` of each result, from these rows of the operand.
void WaveGemms::emitOn(size_t number, Value *operand) {
  emitGemms(builder_, stage_, operand, [&](Value *whole) {
    const std::string name = whole->name + "_" + std::to_string(number);
    return ranges_.rows(state_.names.global(name), whole, cuts_.begin(number), cuts_.end(number));
  });
}

void WaveGemms::emitOwn() {
  Block &body = state_.program->body();
  llvm::SmallVector<Op *, 4> gemms;
  for (auto at = stage_.ownFirst->getIterator(); &*at != stage_.loop; ++at)
    if (computes(*at) || llvm::isa<SetOp>(*at))
      gemms.push_back(&*at);
  builder_.insertBefore(body, *gemms.front());
  builder_.setLocation(stage_.location());
  const Scalar *before = cuts_.ownRowsBefore();
  const std::string name = state_.names.global(nameInStage(state_, stage_, "own_rows"));
  auto [begin, end] = clipTo(scalars_, *stage_.mine, before,
                             scalars_.add(before, scalars_.constant(cuts_.rows(0))));
  emitOn(0, builder_.slice(name, stage_.mine, begin, end));
  for (Op *op : gemms)
    body.erase(op->getIterator());
}

/// On the stream of ready signals, if there is one: those of later steps have time.
void WaveGemms::copyRest(Op &before) {
  if (stage_.staging)
    return;
  useStream(restStream());
  const Scalar *first = cuts_.ownRowsBefore(), *rows = scalars_.constant(cuts_.rows(0));
  copyOwn("head", scalars_.constant(0), first);
  builder_.insertBefore(state_.program->body(), before);
  copyOwn("tail", scalars_.add(first, rows), scalars_.constant(stage_.rows));
  builder_.insertBefore(state_.program->body(), before);
}

/// Leaves the builder in the condition.
void WaveGemms::copyOwn(const std::string &part, const Scalar *begin, const Scalar *end) {
  ranges_.flattened(stage_.whole); // ahead of the condition, for those behind it, too
  builder_.insertAtEnd(builder_.ifOp(scalars_.binary(ScalarKind::Lt, begin, end))->thenBlock);
  const std::string name = nameInStage(state_, stage_, part);
  auto [first, last] = clipTo(scalars_, *stage_.mine, begin, end);
  Value *src = builder_.slice(state_.names.global(name), stage_.mine, first, last);
  const Scalar *slot = cuts_.ownBegin();
  builder_.set(ranges_.rows(state_.names.global(name + "_slot"), stage_.whole,
                            scalars_.add(slot, begin), scalars_.add(slot, end)),
               src);
}

void WaveGemms::emit(size_t number) {
  const int64_t stream = gemmStream(stage_, static_cast<int64_t>(number));
  letLaterOnesWait(number, stream);
  useStream(stream);
  if (!stage_.staging && stream != restStream() && cuts_.reachesBack(number))
    synchronize(restStream());
  const std::string name = nameInStage(state_, stage_, "blocks") + "_" + std::to_string(number);
  emitOn(number, ranges_.rows(state_.names.global(name), stage_.whole, cuts_.begin(number),
                              cuts_.end(number)));
}

/// For the blocks of GEMM `number`, of which they may take some rows, and not for the GEMM.
void WaveGemms::letLaterOnesWait(size_t number, int64_t stream) {
  llvm::SmallDenseSet<int64_t> waiting = {stream};
  for (size_t later = number + 1; later < cuts_.gemms(); ++later) {
    const int64_t other = gemmStream(stage_, static_cast<int64_t>(later));
    if (!cuts_.reachesBack(later) || !waiting.insert(other).second)
      continue;
    useStream(other);
    synchronize(stream);
  }
}

int64_t WaveGemms::restStream() const { return std::max<int64_t>(stage_.transferStreams - 1, 0); }

void WaveGemms::useStream(int64_t stream) {
  builder_.setCurrentStream({nullptr, scalars_.constant(stream)});
}

void WaveGemms::synchronize(int64_t stream) {
  builder_.synchronize({nullptr, scalars_.constant(stream)});
}

} // namespace braid
