//===- runtime/check/difference.cpp - describes how an output differs from its definition -----===//

#include "runtime/check/difference.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid::checker {

void Difference::find(const Pieces &got, const Pieces &expected) {
  PieceReader left{got}, right{expected};
  auto areSame = [&] {
    const Piece a = left.here(), b = right.here();
    return a.term == b.term && a.offset == b.offset;
  };
  while (!left.isAtEnd() && !right.isAtEnd() && areSame()) {
    int64_t bytes = std::min(left.here().bytes, right.here().bytes);
    left.skip(bytes);
    right.skip(bytes);
    at_ += bytes;
  }
  got_ = left.isAtEnd() ? Piece{} : left.here();
  expected_ = right.isAtEnd() ? Piece{} : right.here();
  if (terms_.kind(expected_.term) == TermKind::Sum && got_.term != kUndefined)
    compareSums(terms_.partialOf(expected_.term));
}

std::string Difference::summary() const {
  if (isReordered_)
    return fmt::format("%{} is not added in the order of the ranks from byte {} on", output_.name,
                       at_);
  return fmt::format("%{} differs from its definition from byte {} on", output_.name, at_);
}

bool Difference::hasOtherFactor() const {
  return terms_.kind(got_.term) == TermKind::Gemm &&
         terms_.strFactors(got_.term, expected_.term, inputNames_).has_value();
}

std::vector<std::string> Difference::notes() const {
  if (isReordered_)
    return {"it is " + orderOf(got_), "expected " + orderOf(expected_)};
  std::vector<std::string> notes = {"it holds " + describe(got_),
                                    "expected " + describe(expected_)};
  if (const auto factors = terms_.strFactors(got_.term, expected_.term, inputNames_))
    notes = {notes[0] + ", by " + factors->first, notes[1] + ", by " + factors->second};
  notes.insert(notes.end(), addendNotes_.begin(), addendNotes_.end());
  return notes;
}

std::string Difference::describe(const Piece &piece) const {
  if (piece.term == kUndefined)
    return "nothing";
  return fmt::format("{} (from its byte {} on)", terms_.str(piece.term, inputNames_), piece.offset);
}

//===- Sums -----------------------------------------------------------------------------------===//

/// A term that is not a sum counts as a single addend.
void Difference::compareSums(DType partial) {
  const Addends got = terms_.takenApart(got_, partial);
  const Addends expected = terms_.takenApart(expected_, partial);
  findMissing(got, expected);
  findForeign(got, expected);
  isReordered_ = addendNotes_.empty() && terms_.keepsOrder();
}

void Difference::findMissing(const Addends &got, const Addends &expected) {
  for (const Addend &addend : expected)
    if (std::find(got.begin(), got.end(), addend) == got.end())
      addendNotes_.push_back("it lacks " + nameOf(addend, true));
}

void Difference::findForeign(const Addends &got, const Addends &expected) {
  for (auto addend = got.begin(); addend != got.end(); ++addend) {
    if (std::find(got.begin(), addend, *addend) != addend)
      continue; // already reported
    const bool isExpected = std::find(expected.begin(), expected.end(), *addend) != expected.end();
    const auto count = std::count(addend, got.end(), *addend);
    if (isExpected && count == 1)
      continue;
    const std::string times = count == 1   ? ""
                              : count == 2 ? " twice"
                                           : fmt::format(" {} times", count);
    addendNotes_.push_back("it has " + nameOf(*addend, isExpected) + times);
  }
}

/// Names an addend, for example "the partial result of rank 1 of run 2".
std::string Difference::nameOf(const Addend &addend, bool isExpected) const {
  const PartialResult *partial = definition_.partialResult(addend.term);
  const bool isBias = terms_.kind(addend.term) == TermKind::EveryRow;
  if (!partial)
    return (isBias ? "the bias " : "") + terms_.str(addend.term, inputNames_);
  std::string name = fmt::format("the partial result of rank {}", partial->rank);
  if (partial->tensor != &output_)
    name += " of %" + partial->tensor->name;
  if (partial->run != run_)
    name += fmt::format(" of run {}", partial->run + 1);
  else if (!isExpected && partial->tensor == &output_)
    name = "other rows of " + name;
  return name;
}

std::string Difference::briefNameOf(const Addend &addend) const {
  const PartialResult *partial = definition_.partialResult(addend.term);
  return partial ? fmt::format("rank {}", partial->rank) : terms_.str(addend.term, inputNames_);
}

std::string Difference::orderOf(const Piece &sum) const {
  const int64_t size = sizeOf(output_.type.dtype);
  return terms_.strOrder({sum.term, output_.type.dtype, sum.offset / size},
                         [&](const Addend &addend) { return briefNameOf(addend); });
}

} // namespace braid::checker
