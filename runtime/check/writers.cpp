//===- runtime/check/writers.cpp - finds the commands that wrote given bytes ------------------===//

#include "runtime/check/writers.h"

#include "llvm/ADT/STLExtras.h"

namespace braid::checker {
namespace {

/// A range that a command reads, and the byte `at` within it from which a given byte of the result
/// originates.
struct Source {
  Range range;
  int64_t at;
};

/// Returns the start of the row of A, or of the column of B, from which byte `at` of the result is
/// computed.
Source sourceOfGemm(const PlanMatmul &gemm, int64_t at, GemmOperand operand) {
  const int64_t element = at / sizeOf(gemm.resultType()), size = sizeOf(gemm.dtype);
  if (operand == GemmOperand::A)
    return {gemm.a, element / gemm.n * gemm.k * size};
  return {gemm.b, element % gemm.n * (gemm.transposeB ? gemm.k : 1) * size};
}

std::optional<Source> sourceOf(const Plan &plan, const Command &command, int64_t at,
                               GemmOperand operand) {
  if (command.kind == CommandKind::Copy)
    return Source{command.src, at};
  if (command.kind == CommandKind::Matmul && plan.matmuls[command.matmul].addend.bytes == 0)
    return sourceOfGemm(plan.matmuls[command.matmul], at, operand);
  if (command.kind != CommandKind::Pointwise)
    return std::nullopt;
  const PlanPointwise &pointwise = plan.pointwise[command.pointwise];
  if (pointwise.operands().size() != 1)
    return std::nullopt;
  return Source{pointwise.first.range,
                at / sizeOf(pointwise.dtype) * sizeOf(pointwise.first.dtype)};
}

Place byteAt(const History &history, const Event &event, const Source &source, uint32_t endpoint) {
  Place place = placeOf(history, event, source.range, endpoint);
  place.begin += source.at;
  place.end = place.begin + 1;
  return place;
}

/// Adds the last writer of each part of a sum, up to `most` writers in total.
void addWritersOfParts(const History &history, llvm::ArrayRef<EventId> done, const Event &event,
                       int64_t at, size_t most, std::vector<CheckedEvent> &writers) {
  const PlanSum &sum = history.plan(event).sums[history.command(event).sum];
  const int64_t atPart = at / sizeOf(sum.result) * sizeOf(sum.partial);
  for (int64_t i = 0; i < sum.count && writers.size() < most; ++i)
    llvm::append_range(writers, findWriters(history, done,
                                            byteAt(history, event, {sum.part(i), atPart}, kNone),
                                            GemmOperand::A, 1));
}

} // namespace

std::optional<Place> writtenBy(const History &history, const Event &event, const Place &place) {
  for (const Access &access : accessesOf(history, event))
    if (access.isWrite && common(access.place, place))
      return access.place;
  return std::nullopt;
}

std::vector<CheckedEvent> findWriters(const History &history, llvm::ArrayRef<EventId> done,
                                      Place place, GemmOperand operand, size_t most) {
  std::vector<CheckedEvent> writers;
  place.end = place.begin + 1;
  for (size_t i = done.size(); i > 0 && writers.size() < most; --i) {
    const Event &event = history.event(done[i - 1]);
    const std::optional<Place> written = writtenBy(history, event, place);
    if (!written)
      continue;
    if (event.kind != EventKind::Command)
      break;
    CheckedEvent &writer = writers.emplace_back(history.describe(event));
    writer.detail = "writes " + str(history, *written);
    const Command &command = history.command(event);
    const std::optional<Source> source =
        sourceOf(history.plan(event), command, place.begin - written->begin, operand);
    if (!source) {
      if (command.kind == CommandKind::Sum)
        addWritersOfParts(history, done.take_front(i - 1), event, place.begin - written->begin,
                          most, writers);
      break;
    }
    writer.detail +=
        " from " + str(history, placeOf(history, event, source->range, command.endpoint));
    place = byteAt(history, event, *source, command.endpoint);
    operand = GemmOperand::A; // the wrong operand of earlier GEMMs is unknown
  }
  return writers;
}

} // namespace braid::checker
