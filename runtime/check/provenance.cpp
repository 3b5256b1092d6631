//===- runtime/check/provenance.cpp - compares outputs with their definition ------------------===//

#include "runtime/check/provenance.h"

#include "runtime/check/access.h"
#include "runtime/check/contents.h"
#include "runtime/check/definition.h"
#include "runtime/check/difference.h"
#include "runtime/check/writers.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace braid::checker {
namespace {

/// Executes the history symbolically. Without a definition, finds only reads of unwritten bytes,
/// including reads by the caller.
class Follower {
public:
  Follower(const History &history, const Fusion *fusion, bool ordered)
      : history_(history), inputs_(fusion ? fusion->inputs() : Tensors()),
        outputs_(fusion ? fusion->outputs() : Tensors()), terms_(inputs_, ordered),
        memory_(history.plans().size()) {
    if (fusion)
      definition_.emplace(*fusion, terms_);
  }

  bool visit(const Event &event) {
    switch (event.kind) {
    case EventKind::CallerWrites:
      return startRun(event);
    case EventKind::CallerReads:
      return definition_ ? compareOutputs(event) : checkOutputs(event);
    case EventKind::Release:
      return forget(event);
    case EventKind::Command:
      return follow(event, history_.command(event));
    }
    return true;
  }

  std::optional<Violation> take() { return std::move(violation_); }
  /// Prepends to the violation's events the commands in `before` that wrote the wrong byte of an
  /// output or the data from which the byte was computed.
  void accuseWriters(llvm::ArrayRef<EventId> before) {
    if (!wrong_)
      return;
    std::vector<CheckedEvent> writers =
        findWriters(history_, before, *wrong_, wrongOperand_, mostWriters_);
    if (writers.empty())
      violation_->notes.push_back("no command writes " + str(history_, *wrong_));
    violation_->events.insert(violation_->events.begin(), writers.begin(), writers.end());
  }

  /// Names the write in `after` that a read of unwritten bytes should have waited for: in later
  /// runs, the read returns the write's stale result.
  void accuseLateWrite(llvm::ArrayRef<EventId> after) {
    if (!unwritten_ || isGivenAway(*unwritten_))
      return;
    for (EventId id : after) {
      const Event &event = history_.event(id);
      const std::optional<Place> written = writtenBy(history_, event, *unwritten_);
      if (event.kind == EventKind::Command && written && written->buffer == unwritten_->buffer) {
        violation_->notes.push_back(fmt::format("{} writes this data only later: from run 2 on, "
                                                "the read returns stale data from the previous run",
                                                history_.describe(id).text));
        return;
      }
    }
  }

private:
  using Tensors = std::vector<const FusionTensor *>;

  MemoryContents &contentsOf(const Memory &memory) { return memory_[memory.rank][memory]; }

  /// Returns true if another buffer may reuse the memory before the next run.
  bool isGivenAway(const Place &place) const {
    return llvm::any_of(history_.plans()[place.memory.rank].releases,
                        [&](const PlanRelease &end) { return end.buffer == place.buffer; });
  }

  bool fail(std::string summary, const Event &event, std::vector<std::string> notes) {
    violation_ = Violation{
        CheckRule::Result, std::move(summary), {history_.describe(event)}, std::move(notes)};
    return false;
  }

  /// Reports a violation at `place`, which is part of an output.
  bool failAt(const Place &place, std::string summary, const Event &event,
              std::vector<std::string> notes) {
    wrong_ = place;
    return fail(std::move(summary), event, std::move(notes));
  }

  bool startRun(const Event &event) {
    const Plan &plan = history_.plan(event);
    for (uint32_t i = 0; i < plan.inputs.size(); ++i)
      contentsOf({event.rank, BufferKind::Input, i})
          .write(0, inputContents(i, event, plan.buffers[plan.inputs[i]].bytes));
    for (uint32_t i = 0; i < plan.outputs.size(); ++i)
      contentsOf({event.rank, BufferKind::Output, i})
          .write(0, {{kUndefined, 0, plan.buffers[plan.outputs[i]].bytes}});
    return true;
  }

  Pieces inputContents(uint32_t number, const Event &event, int64_t bytes) {
    if (!definition_)
      return {{terms_.input(number, event.rank, event.run), 0, bytes}};
    return definition_->contents(*inputs_[number], event.rank, event.run);
  }

  /// Makes the buffer's contents undefined, because another buffer may reuse the memory.
  bool forget(const Event &event) {
    const Plan &plan = history_.plan(event);
    const PlanBuffer &buffer = plan.buffers[plan.releases[event.index].buffer];
    contentsOf({event.rank, buffer.kind, 0}).write(buffer.offset, {{kUndefined, 0, buffer.bytes}});
    return true;
  }

  /// Reads the contents of a place. Reports a violation if any byte is unwritten.
  bool read(const Event &event, const Place &place, Pieces &pieces) {
    pieces = contentsOf(place.memory).read(place.begin, place.end);
    int64_t begin = place.begin;
    for (const Piece &piece : pieces) {
      if (piece.term == kUndefined) {
        unwritten_ = Place{place.memory, place.buffer, begin, begin + piece.bytes};
        return fail("a command reads data that no command has written", event,
                    {str(history_, place)});
      }
      begin += piece.bytes;
    }
    return true;
  }

  /// Writes to a place. Reports a violation if it is part of an output that has already been
  /// written in this run, unless the command adds to it.
  bool write(const Event &event, const Place &place, const Pieces &pieces, bool adds = false) {
    MemoryContents &contents = contentsOf(place.memory);
    if (!adds && definition_ && place.memory.kind == BufferKind::Output)
      for (int64_t at = place.begin; const Piece &piece : contents.read(place.begin, place.end)) {
        if (piece.term != kUndefined) {
          mostWriters_ = 1; // name only one writer, because the two are equivalent
          return failAt(
              {place.memory, place.buffer, at, at + piece.bytes},
              "a command computes part of an output that was already computed in the same run",
              event, {str(history_, place)});
        }
        at += piece.bytes;
      }
    contents.write(place.begin, pieces);
    return true;
  }

  bool follow(const Event &event, const Command &command) {
    auto at = [&](const Range &range) { return placeOf(history_, event, range, command.endpoint); };
    Pieces source;
    switch (command.kind) {
    case CommandKind::Copy:
      return read(event, at(command.src), source) && write(event, at(command.dst), source);
    case CommandKind::Matmul:
      return followGemm(event, history_.plan(event).matmuls[command.matmul], command.endpoint);
    case CommandKind::Sum:
      return followSum(event, history_.plan(event).sums[command.sum]);
    case CommandKind::Pointwise:
      return followPointwise(event, history_.plan(event).pointwise[command.pointwise]);
    default:
      return true;
    }
  }

  bool followGemm(const Event &event, const PlanMatmul &m, uint32_t endpoint) {
    auto at = [&](const Range &range) { return placeOf(history_, event, range, endpoint); };
    Pieces a;
    Factor factor{{}, {}, m.dtype, m.n, m.k, m.transposeB, m.resultType()};
    if (!read(event, at(m.a), a) || !read(event, at(m.b), factor.b))
      return false;
    if (m.bias.bytes != 0 && !read(event, at(m.bias), factor.bias))
      return false;
    if (m.addend.bytes == 0)
      return write(event, at(m.c), terms_.gemmOf(a, factor));
    Pieces addend;
    return read(event, at(m.addend), addend) &&
           write(event, at(m.c), terms_.addedTo(addend, a, factor), m.addsInPlace());
  }

  bool followSum(const Event &event, const PlanSum &sum) {
    auto at = [&](const Range &range) { return placeOf(history_, event, range, kNone); };
    Summands summands{{}, {{}, sum.dtype}, sum.result};
    for (int64_t i = 0; i < sum.count; ++i) {
      summands.parts.push_back({{}, sum.partial});
      if (!read(event, at(sum.part(i)), summands.parts.back().pieces))
        return false;
    }
    if (sum.bias.bytes != 0 && !read(event, at(sum.bias), summands.bias.pieces))
      return false;
    return write(event, at(sum.dst), terms_.sumOf(summands));
  }

  bool followPointwise(const Event &event, const PlanPointwise &pointwise) {
    auto readTyped = [&](const PlanPointwise::Operand &operand, TypedPieces &to) {
      to.dtype = operand.dtype;
      return read(event, placeOf(history_, event, operand.range, kNone), to.pieces);
    };
    TypedPieces value;
    if (!readTyped(pointwise.first, value))
      return false;
    const DType exact = pointwise.dtype == DType::F64 ? DType::F64 : DType::F32;
    for (size_t i = 0; i < pointwise.steps.size(); ++i) {
      const auto &[function, operand] = pointwise.steps[i];
      const DType result = i + 1 == pointwise.steps.size() ? pointwise.dtype : exact;
      llvm::SmallVector<TypedPieces, 2> operands = {std::move(value)};
      if (isBinary(function) && !readTyped(operand, operands.emplace_back()))
        return false;
      value = {terms_.pointwiseOf(function, operands, result), result};
    }
    if (pointwise.steps.empty())
      value.pieces = terms_.rounded(value, pointwise.dtype);
    return write(event, placeOf(history_, event, pointwise.dst, kNone), value.pieces);
  }

  /// Without a definition, only checks that every byte of every output has been written.
  bool checkOutputs(const Event &event) {
    const Plan &plan = history_.plan(event);
    for (uint32_t i = 0; i < plan.outputs.size(); ++i) {
      const uint32_t buffer = plan.outputs[i];
      Place place{{event.rank, BufferKind::Output, i}, buffer, 0, plan.buffers[buffer].bytes};
      for (const Piece &piece : contentsOf(place.memory).read(0, place.end)) {
        place.end = place.begin + piece.bytes;
        if (piece.term == kUndefined && piece.bytes != 0)
          return failAt(place, "the caller reads data that no command has written", event, {});
        place.begin = place.end;
      }
    }
    return true;
  }

  bool compareOutputs(const Event &event) {
    for (uint32_t i = 0; i < outputs_.size(); ++i) {
      const FusionTensor &output = *outputs_[i];
      const Memory memory{event.rank, BufferKind::Output, i};
      const Pieces &expected = definition_->contents(output, event.rank, event.run);
      const Pieces got = contentsOf(memory).read(0, bytesOf(expected));
      if (got == expected)
        continue;
      Difference difference =
          findDifference(terms_, *definition_, output, event.run, got, expected);
      wrongOperand_ = difference.hasOtherFactor ? GemmOperand::B : GemmOperand::A;
      return failAt({memory, history_.plan(event).outputs[i], difference.at,
                     difference.at + difference.bytes},
                    std::move(difference.summary), event, std::move(difference.notes));
    }
    return true;
  }

  const History &history_;
  const Tensors inputs_, outputs_; ///< in definition order
  Terms terms_;                    // declared before the members that refer to it
  std::optional<Definition> definition_;
  std::vector<std::map<Memory, MemoryContents>> memory_; ///< by rank
  std::optional<Violation> violation_;
  std::optional<Place> wrong_;                ///< part of an output whose first byte is wrong
  GemmOperand wrongOperand_ = GemmOperand::A; ///< operand of the GEMM that wrote `wrong_`
  size_t mostWriters_ = 6;                    ///< maximum number of writers to name
  std::optional<Place> unwritten_;            ///< bytes that were read before being written
};

bool touchesMemory(const History &history, const Event &event) {
  return event.kind != EventKind::Command ||
         !operandsOf(history.plan(event), history.command(event)).empty();
}

} // namespace

std::optional<Violation> findWrongResult(const History &history, llvm::ArrayRef<EventId> order,
                                         const Fusion *fusion, bool ordered,
                                         std::string &notChecked, const ProgressFn &progress) {
  Terms scratch;
  notChecked =
      fusion ? Definition(*fusion, scratch).whyNot() : "the program does not implement a fusion";
  if (!notChecked.empty())
    fusion = nullptr;
  Follower follower(history, fusion, ordered);
  ProgressStep step(progress, "checking results", "commands", order.size() * history.blocks());
  auto visitInAllBlocks = [&](EventId id) {
    const bool touches = touchesMemory(history, history.event(id));
    for (uint32_t block = 0; block < history.blocks(); ++block) {
      step.advance();
      if (touches && !follower.visit(history.event(id, block)))
        return false;
    }
    return true;
  };
  const auto *wrong = llvm::find_if_not(order, visitInAllBlocks);
  if (wrong != order.end() && history.blocks() == 1) {
    const auto before = static_cast<size_t>(wrong - order.begin());
    follower.accuseWriters(order.take_front(before));
    follower.accuseLateWrite(order.drop_front(before + 1));
  }
  return follower.take();
}

} // namespace braid::checker
