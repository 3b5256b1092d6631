//===- runtime/check/difference.cpp - describes how an output differs from its definition -----===//

#include "runtime/check/difference.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid::checker {
namespace {

/// Describes two pieces that differ, or sums that differ in their addends or their order.
class Describer {
public:
  Describer(const Terms &terms, const Definition &definition, const FusionTensor &output,
            uint32_t run)
      : terms_(terms), definition_(definition), output_(output), run_(run) {}

  std::string describe(const Piece &piece) const {
    if (piece.term == kUndefined)
      return "nothing";
    return fmt::format("{} (starting at its byte {})", terms_.str(piece.term), piece.offset);
  }

  /// Returns the addends that are missing, repeated or unexpected in `got`. A term that is not a
  /// sum counts as a single addend.
  std::vector<std::string> compareSums(const Piece &got, const Piece &expected) const {
    const DType partial = terms_.partialOf(expected.term);
    const Addends has = terms_.takenApart(got, partial);
    const Addends needs = terms_.takenApart(expected, partial);
    std::vector<std::string> notes;
    for (const Addend &addend : needs)
      if (!llvm::is_contained(has, addend))
        notes.push_back("it lacks " + nameOf(addend, true));
    for (auto addend = has.begin(); addend != has.end(); ++addend) {
      const auto count = std::count(addend, has.end(), *addend);
      const bool isExpected = llvm::is_contained(needs, *addend);
      if ((isExpected && count == 1) || std::find(has.begin(), addend, *addend) != addend)
        continue; // right, or already reported
      const std::string times = count == 1   ? ""
                                : count == 2 ? " twice"
                                             : fmt::format(" {} times", count);
      notes.push_back("it has " + nameOf(*addend, isExpected) + times);
    }
    return notes;
  }

  /// Formats the order of a sum's additions, for example "(rank 0 + rank 1) + rank 2".
  std::string orderOf(const Piece &sum) const {
    const DType dtype = output_.type.dtype;
    return terms_.strOrder(
        {sum.term, dtype, sum.offset / sizeOf(dtype)}, [&](const Addend &addend) {
          const PartialResult *partial = definition_.partialResult(addend.term);
          return partial ? fmt::format("rank {}", partial->rank) : terms_.str(addend.term);
        });
  }

private:
  /// Names an addend, for example "the partial result of rank 1 of run 2".
  std::string nameOf(const Addend &addend, bool isExpected) const {
    const PartialResult *partial = definition_.partialResult(addend.term);
    const bool isBias = terms_.kind(addend.term) == TermKind::EveryRow;
    if (!partial)
      return (isBias ? "the bias " : "") + terms_.str(addend.term);
    std::string name =
        (partial->product == 0 ? "" : fmt::format("product {} of ", partial->product)) +
        fmt::format("the partial result of rank {}", partial->rank);
    if (partial->tensor != &output_)
      name += " of %" + partial->tensor->name;
    if (partial->run != run_)
      name += fmt::format(" of run {}", partial->run + 1);
    else if (!isExpected && partial->tensor == &output_)
      name = "other rows of " + name;
    return name;
  }

  const Terms &terms_;
  const Definition &definition_;
  const FusionTensor &output_;
  const uint32_t run_;
};

} // namespace

Difference findDifference(const Terms &terms, const Definition &definition,
                          const FusionTensor &output, uint32_t run, const Pieces &got,
                          const Pieces &expected) {
  Difference difference;
  PieceReader left{got}, right{expected};
  const auto areSame = [&] {
    return !left.isAtEnd() && !right.isAtEnd() && left.here().term == right.here().term &&
           left.here().offset == right.here().offset;
  };
  while (areSame()) {
    const int64_t bytes = std::min(left.here().bytes, right.here().bytes);
    left.skip(bytes);
    right.skip(bytes);
    difference.at += bytes;
  }
  const Piece is = left.isAtEnd() ? Piece{} : left.here();
  const Piece wanted = right.isAtEnd() ? Piece{} : right.here();
  difference.bytes = is.bytes;
  const auto factors = terms.strFactors(is.term, wanted.term);
  difference.hasOtherFactor = factors.has_value();
  const Describer describer(terms, definition, output, run);
  const char *what = "differs from its definition";
  difference.notes = {"it holds " + describer.describe(is) +
                          (factors ? ", multiplied by " + factors->first : ""),
                      "expected " + describer.describe(wanted) +
                          (factors ? ", multiplied by " + factors->second : "")};
  if (terms.kind(wanted.term) == TermKind::Sum && is.term != kUndefined) {
    const std::vector<std::string> addends = describer.compareSums(is, wanted);
    llvm::append_range(difference.notes, addends);
    if (addends.empty() && terms.keepsOrder()) {
      what = "is not summed in rank order";
      difference.notes = {"it is " + describer.orderOf(is),
                          "expected " + describer.orderOf(wanted)};
    }
  }
  difference.summary = fmt::format("%{} {}, starting at byte {}", output.name, what, difference.at);
  return difference;
}

} // namespace braid::checker
