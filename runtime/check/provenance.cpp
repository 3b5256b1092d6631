//===- runtime/check/provenance.cpp - is every output what the definition says? ---------------===//

#include "runtime/check/provenance.h"

#include "runtime/check/access.h"
#include "runtime/check/terms.h"

#include <fmt/format.h>

namespace braid::checker {
namespace {

//===- What memory should hold ----------------------------------------------------------------===//

/// The contents of a fusion's tensor on one rank, in terms. Written from the definition alone.
class Definition {
public:
  Definition(const Fusion &fusion, Terms &terms) : fusion_(fusion), terms_(terms) {
    std::vector<const FusionTensor *> inputs = fusion.inputs();
    for (uint32_t i = 0; i < inputs.size(); ++i)
      numbers_[inputs[i]] = i;
  }

  /// The term that input `number` of a rank is, in a run.
  TermId inputTerm(uint32_t number, int64_t rank, uint32_t run) {
    bool isSharded = fusion_.inputs()[number]->type.find(AxisKind::DIDx).has_value();
    return terms_.input(number, isSharded ? rank : -1, run);
  }

  Pieces contents(const FusionTensor &tensor, int64_t rank, uint32_t run) {
    auto input = numbers_.find(&tensor);
    if (input != numbers_.end())
      return {{inputTerm(input->second, rank, run), 0, localBytes(tensor)}};
    llvm::SmallVector<FusionTensor *, 3> operands = operandsOf(*tensor.definition);
    const FusionTensor &a = *operands[0], &b = *operands[1];
    bool isLinear = llvm::isa<LinearNode>(tensor.definition);
    Shape shapeA = fusion_.localShape(a.type), shapeB = fusion_.localShape(b.type);
    Factor factor{contents(b, rank, run), {}, tensor.type.dtype, 0, shapeA.back(), isLinear};
    factor.n = *elementCount(shapeB) / factor.k;
    if (operands.size() == 3)
      factor.bias = contents(*operands[2], rank, run);
    return terms_.gemmOf(rowsOf(a, tensor, rank, run), factor);
  }

  /// Why the definition cannot be followed, or an empty string.
  std::string whyNot() const {
    if (fusion_.ranks() == 1)
      return ""; // nothing is split
    for (const auto &node : fusion_.nodes()) {
      if (!resultOf(*node) || llvm::isa<InputNode>(node.get()))
        continue;
      std::string why = whyNot(*node);
      if (!why.empty())
        return why;
    }
    return "";
  }

private:
  static bool isSharded(const FusionTensor &tensor, size_t axis) {
    return tensor.type.axes[axis].kind == AxisKind::DIDx;
  }

  /// Rows are followed as they lie in memory, so only the leading axis of the first operand may be
  /// gathered or split.
  static std::string whyNot(const FusionNode &node) {
    const FusionTensor &result = *resultOf(node), &a = *operandsOf(node)[0],
                       &b = *operandsOf(node)[1];
    size_t contractedA = a.type.axes.size() - 1;
    size_t contractedB = llvm::isa<LinearNode>(&node) ? b.type.axes.size() - 1 : 0;
    if (isSharded(a, contractedA) || isSharded(b, contractedB))
      return fmt::format("%{} contracts an axis that is split over devices", result.name);
    for (size_t axis = 1; axis < contractedA; ++axis)
      if (isSharded(a, axis) != isSharded(result, axis))
        return fmt::format("%{} moves axis {} of %{}, which is not its leading one", result.name,
                           axis, a.name);
    size_t column = contractedA;
    for (size_t axis = 0; axis < b.type.axes.size(); ++axis)
      if (axis != contractedB && isSharded(b, axis) != isSharded(result, column++))
        return fmt::format("%{} moves an axis of its second operand, %{}", result.name, b.name);
    return "";
  }

  Pieces rowsOf(const FusionTensor &a, const FusionTensor &result, int64_t rank, uint32_t run) {
    bool hasRows = a.type.axes.size() > 1;
    if (!hasRows || isSharded(a, 0) == isSharded(result, 0))
      return contents(a, rank, run);
    if (isSharded(result, 0)) {
      int64_t bytes = localBytes(a) / fusion_.ranks();
      return part(contents(a, rank, run), rank * bytes, bytes);
    }
    Pieces rows;
    for (int64_t owner = 0; owner < fusion_.ranks(); ++owner)
      for (const Piece &piece : contents(a, owner, run))
        append(rows, piece);
    return rows;
  }

  static Pieces part(const Pieces &whole, int64_t begin, int64_t bytes) {
    Pieces result;
    int64_t at = 0;
    for (const Piece &piece : whole) {
      int64_t from = std::max(at, begin), to = std::min(at + piece.bytes, begin + bytes);
      if (from < to)
        append(result, {piece.term, piece.offset + (from - at), to - from});
      at += piece.bytes;
    }
    return result;
  }

  int64_t localBytes(const FusionTensor &tensor) const {
    return *byteCount(tensor.type.dtype, fusion_.localShape(tensor.type));
  }

  const Fusion &fusion_;
  Terms &terms_;
  std::map<const FusionTensor *, uint32_t> numbers_;
};

//===- What memory holds ----------------------------------------------------------------------===//

/// Contents of one memory, by first byte.
class Contents {
public:
  Pieces read(int64_t begin, int64_t end) const {
    Pieces pieces;
    int64_t at = begin;
    auto next = stretches_.upper_bound(begin);
    if (next != stretches_.begin())
      --next;
    for (; next != stretches_.end() && next->first < end; ++next) {
      int64_t from = std::max(begin, next->first);
      int64_t to = std::min(end, next->first + next->second.bytes);
      if (from >= to)
        continue;
      if (from > at)
        append(pieces, {kUndefined, 0, from - at});
      append(pieces, {next->second.term, next->second.offset + (from - next->first), to - from});
      at = to;
    }
    if (at < end)
      append(pieces, {kUndefined, 0, end - at});
    return pieces;
  }

  void write(int64_t begin, const Pieces &pieces) {
    int64_t end = begin;
    for (const Piece &piece : pieces)
      end += piece.bytes;
    clear(begin, end);
    for (const Piece &piece : pieces) {
      if (piece.term != kUndefined)
        stretches_[begin] = piece;
      begin += piece.bytes;
    }
  }

private:
  void clear(int64_t begin, int64_t end) {
    cut(begin);
    cut(end);
    stretches_.erase(stretches_.lower_bound(begin), stretches_.lower_bound(end));
  }

  void cut(int64_t at) {
    auto next = stretches_.upper_bound(at);
    if (next == stretches_.begin())
      return;
    auto found = std::prev(next);
    int64_t head = at - found->first;
    if (head == 0 || head >= found->second.bytes)
      return;
    Piece tail{found->second.term, found->second.offset + head, found->second.bytes - head};
    found->second.bytes = head;
    stretches_[at] = tail;
  }

  std::map<int64_t, Piece> stretches_;
};

/// Without a definition, only reads of what nothing wrote are found, those of the caller included.
class Follower {
public:
  Follower(const History &history, const Fusion *fusion) : history_(history) {
    if (!fusion)
      return;
    definition_.emplace(*fusion, terms_);
    outputs_ = fusion->outputs();
    for (const FusionTensor *input : fusion->inputs())
      inputNames_.push_back(input->name);
  }

  bool visit(EventId id) {
    const Event &event = history_.event(id);
    switch (event.kind) {
    case EventKind::CallerWrites:
      return startRun(event);
    case EventKind::CallerReads:
      return definition_ ? compareOutputs(id, event) : checkOutputs(id, event);
    case EventKind::Release:
      return forget(event);
    case EventKind::Command:
      return follow(id, event, history_.command(event));
    }
    return true;
  }

  std::optional<Violation> take() { return std::move(violation_); }

private:
  bool fail(std::string summary, EventId id, std::vector<std::string> notes) {
    violation_ =
        Violation{CheckRule::Result, std::move(summary), {history_.describe(id)}, std::move(notes)};
    return false;
  }

  bool startRun(const Event &event) {
    const Plan &plan = history_.plan(event);
    for (uint32_t i = 0; i < plan.inputs.size(); ++i)
      memory_[{event.rank, BufferKind::Input, i}].write(
          0, {{inputTerm(i, event), 0, plan.buffers[plan.inputs[i]].bytes}});
    for (uint32_t i = 0; i < plan.outputs.size(); ++i)
      memory_[{event.rank, BufferKind::Output, i}].write(
          0, {{kUndefined, 0, plan.buffers[plan.outputs[i]].bytes}});
    return true;
  }

  TermId inputTerm(uint32_t number, const Event &event) {
    return definition_ ? definition_->inputTerm(number, event.rank, event.run)
                       : terms_.input(number, event.rank, event.run);
  }

  /// Another buffer may get the memory, with undefined contents.
  bool forget(const Event &event) {
    const Plan &plan = history_.plan(event);
    const PlanBuffer &buffer = plan.buffers[plan.releases[event.index].buffer];
    memory_[{event.rank, buffer.kind, 0}].write(buffer.offset, {{kUndefined, 0, buffer.bytes}});
    return true;
  }

  /// Contents of a place; a read of what nothing wrote ends the search.
  bool read(EventId id, const Place &place, Pieces &pieces) {
    pieces = memory_[place.memory].read(place.begin, place.end);
    for (const Piece &piece : pieces)
      if (piece.term == kUndefined)
        return fail("reads what nothing has written", id, {str(history_, place)});
    return true;
  }

  bool write(EventId id, const Place &place, const Pieces &pieces) {
    Contents &contents = memory_[place.memory];
    if (definition_ && place.memory.kind == BufferKind::Output)
      for (const Piece &piece : contents.read(place.begin, place.end))
        if (piece.term != kUndefined)
          return fail("computes a part of an output for the second time in a run", id,
                      {str(history_, place)});
    contents.write(place.begin, pieces);
    return true;
  }

  bool follow(EventId id, const Event &event, const Command &command) {
    auto at = [&](const Range &range) { return placeOf(history_, event, range, command.endpoint); };
    Pieces source, target;
    switch (command.kind) {
    case CommandKind::Copy:
      return read(id, at(command.src), source) && write(id, at(command.dst), source);
    case CommandKind::Add:
      if (!read(id, at(command.src), source) || !read(id, at(command.dst), target))
        return false;
      memory_[at(command.dst).memory].write(at(command.dst).begin, terms_.sumOf(target, source));
      return true;
    case CommandKind::Matmul:
      return followGemm(id, event, history_.plan(event).matmuls[command.matmul]);
    default:
      return true;
    }
  }

  bool followGemm(EventId id, const Event &event, const PlanMatmul &m) {
    auto at = [&](const Range &range) { return placeOf(history_, event, range, kNone); };
    Pieces a;
    Factor factor{{}, {}, m.dtype, m.n, m.k, m.transposeB};
    if (!read(id, at(m.a), a) || !read(id, at(m.b), factor.b))
      return false;
    if (m.bias.bytes != 0 && !read(id, at(m.bias), factor.bias))
      return false;
    return write(id, at(m.c), terms_.gemmOf(a, factor));
  }

  /// Without a definition: the caller reads every byte of every output.
  bool checkOutputs(EventId id, const Event &event) {
    const Plan &plan = history_.plan(event);
    for (uint32_t i = 0; i < plan.outputs.size(); ++i) {
      const uint32_t buffer = plan.outputs[i];
      Place place{{event.rank, BufferKind::Output, i}, buffer, 0, plan.buffers[buffer].bytes};
      for (const Piece &piece : memory_[place.memory].read(0, place.end)) {
        place.end = place.begin + piece.bytes;
        if (piece.term == kUndefined && piece.bytes != 0)
          return fail("the caller reads what nothing has written", id, {str(history_, place)});
        place.begin = place.end;
      }
    }
    return true;
  }

  bool compareOutputs(EventId id, const Event &event) {
    for (uint32_t i = 0; i < outputs_.size(); ++i) {
      Memory memory{event.rank, BufferKind::Output, i};
      Pieces expected = definition_->contents(*outputs_[i], event.rank, event.run);
      int64_t bytes = 0;
      for (const Piece &piece : expected)
        bytes += piece.bytes;
      if (!compare(id, outputs_[i]->name, memory_[memory].read(0, bytes), expected))
        return false;
    }
    return true;
  }

  bool compare(EventId id, const std::string &name, const Pieces &got, const Pieces &expected) {
    if (got == expected)
      return true;
    int64_t at = 0;
    Reader left{got}, right{expected};
    while (!left.isAtEnd() && !right.isAtEnd() && left.here() == right.here()) {
      int64_t bytes = std::min(left.bytes(), right.bytes());
      left.skip(bytes);
      right.skip(bytes);
      at += bytes;
    }
    return fail(fmt::format("%{} is not what the definition says from byte {} on", name, at), id,
                {"it holds " + describe(left), "expected " + describe(right)});
  }

  /// Goes through pieces, byte by byte if need be.
  struct Reader {
    const Pieces &pieces;
    size_t index = 0;
    int64_t used = 0;

    bool isAtEnd() const { return index == pieces.size(); }
    int64_t bytes() const { return pieces[index].bytes - used; }
    std::pair<TermId, int64_t> here() const {
      return {pieces[index].term, pieces[index].offset + used};
    }
    void skip(int64_t count) {
      used += count;
      if (used == pieces[index].bytes)
        ++index, used = 0;
    }
  };

  std::string describe(const Reader &reader) const {
    if (reader.isAtEnd() || reader.here().first == kUndefined)
      return "nothing";
    auto [term, offset] = reader.here();
    return fmt::format("{} (from its byte {} on)", terms_.str(term, inputNames_), offset);
  }

  const History &history_;
  Terms terms_;
  std::optional<Definition> definition_;
  std::vector<const FusionTensor *> outputs_; ///< of the definition
  std::map<Memory, Contents> memory_;
  std::vector<std::string> inputNames_;
  std::optional<Violation> violation_;
};

} // namespace

std::optional<Violation> findWrongResult(const History &history, llvm::ArrayRef<EventId> order,
                                         const Fusion *fusion, std::string &notChecked,
                                         const ProgressFn &progress) {
  Terms scratch;
  notChecked = fusion ? Definition(*fusion, scratch).whyNot() : "the program implements no fusion";
  if (!notChecked.empty())
    fusion = nullptr;
  Follower follower(history, fusion);
  ProgressStep step(progress, "results", "commands", order.size());
  for (EventId id : order) {
    step.advance();
    if (!follower.visit(id))
      break;
  }
  return follower.take();
}

} // namespace braid::checker
