//===- runtime/check/term_text.cpp - formats terms for diagnostics ----------------------------===//

#include "runtime/check/terms.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace braid::checker {

std::string Terms::str(TermId id) const {
  const Term &term = terms_[id];
  switch (term.kind) {
  case TermKind::Undefined:
    return "nothing";
  case TermKind::Input: {
    std::string owner = term.second < 0 ? "" : fmt::format(" of rank {}", term.second);
    return fmt::format("%{}{} in run {}", inputs_[static_cast<size_t>(term.first)]->name, owner,
                       term.third + 1);
  }
  case TermKind::Gemm: { // mentions only unusual properties: "the biased f32 matmul of ..."
    const Factor &factor = factorOf(id);
    return fmt::format("the {}{}matmul of {}", factor.bias.empty() ? "" : "biased ",
                       factor.result == factor.dtype ? "" : name(factor.result).str() + " ",
                       str(rowsOf(id)));
  }
  case TermKind::Sum:
    return strSum(sumAt(id));
  case TermKind::Pointwise: {
    std::vector<std::string> operands;
    for (const Addend &operand : functionAt(id).operands)
      operands.push_back(str(operand.term));
    return fmt::format("the {} of {}", keyword(functionAt(id).function).str(),
                       llvm::join(operands, " and "));
  }
  case TermKind::EveryRow:
    return str(rows_[static_cast<size_t>(term.first)].front().term);
  case TermKind::Unrounded:
    return "the sum of an addend and the unrounded result of a GEMM";
  case TermKind::Mixed:
    return "the result of rows or elements that span several blocks";
  }
  return "";
}

/// Formats a factor, for example "16x8 of %B in run 1 from byte 64 on, transposed, and the bias %b
/// in run 1".
std::string Terms::strFactor(const Factor &factor) const {
  auto nameOf = [&](const Pieces &pieces) {
    return pieces.empty() ? "nothing"
                          : fmt::format("{} starting at byte {}", str(pieces.front().term),
                                        pieces.front().offset);
  };
  std::string text = fmt::format("{}x{} of {}{}", factor.k, factor.n, nameOf(factor.b),
                                 factor.transposeB ? ", transposed" : "");
  return factor.bias.empty() ? text : text + ", and the bias " + nameOf(factor.bias);
}

std::optional<std::pair<std::string, std::string>> Terms::strFactors(TermId one,
                                                                     TermId other) const {
  while (kind(one) == TermKind::Gemm && kind(other) == TermKind::Gemm) {
    const Factor &mine = factorOf(one), &theirs = factorOf(other);
    if (mine != theirs)
      return std::pair(strFactor(mine), strFactor(theirs));
    one = rowsOf(one);
    other = rowsOf(other);
  }
  return std::nullopt;
}

/// Formats "the sum of w, x, y, z and 4 more", or "the f32 sum ..." if wider than its addends.
std::string Terms::strSum(const Sum &sum) const {
  constexpr size_t kShown = 4;
  const bool isWider = sizeOf(sum.dtype) > sizeOf(sum.partial);
  const std::string what = isWider ? name(sum.dtype).str() + " sum" : "sum";
  std::vector<std::string> names;
  for (const Addend &addend : llvm::ArrayRef(sum.addends).take_front(kShown)) {
    const bool isSum = kind(addend.term) == TermKind::Sum;
    names.push_back(fmt::format("{}{}{}", isSum ? "(" : "", str(addend.term), isSum ? ")" : ""));
  }
  if (sum.addends.size() == 1)
    return fmt::format("the {} of {} alone", what, names.front());
  const size_t more = sum.addends.size() - names.size();
  std::string last = more == 0 ? names.back() : fmt::format("{} more", more);
  if (more == 0)
    names.pop_back();
  return fmt::format("the {} of {} and {}", what, llvm::join(names, ", "), last);
}

std::string Terms::strOrder(const Addend &addend, NameFn nameOf) const {
  if (kind(addend.term) != TermKind::Sum)
    return nameOf(addend);
  std::vector<std::string> names;
  for (const Addend &each : sumAt(addend.term).addends) {
    const Addend inner = moved(each, addend.element);
    const bool isSum = kind(inner.term) == TermKind::Sum;
    names.push_back(isSum ? "(" + strOrder(inner, nameOf) + ")" : nameOf(inner));
  }
  return llvm::join(names, " + ");
}

} // namespace braid::checker
