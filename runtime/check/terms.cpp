//===- runtime/check/terms.cpp - symbolic contents of memory ----------------------------------===//

#include "runtime/check/terms.h"

#include <fmt/format.h>

namespace braid::checker {

void append(Pieces &pieces, Piece piece) {
  if (!pieces.empty()) {
    Piece &last = pieces.back();
    if (last.term == piece.term &&
        (piece.term == kUndefined || last.offset + last.bytes == piece.offset)) {
      last.bytes += piece.bytes;
      return;
    }
  }
  pieces.push_back(piece);
}

TermId Terms::unique(TermKind kind, int64_t first, int64_t second, int64_t third) {
  auto [entry, isNew] =
      uniqued_.try_emplace({kind, first, second, third}, static_cast<TermId>(terms_.size()));
  if (isNew)
    terms_.push_back({kind, first, second, third});
  return entry->second;
}

TermId Terms::input(uint32_t number, int64_t rank, uint32_t run) {
  return unique(TermKind::Input, number, rank, run);
}

TermId Terms::gemm(TermId a, const Factor &factor) {
  auto [entry, isNew] = factors_.try_emplace(factor, static_cast<int64_t>(factors_.size()));
  return unique(TermKind::Gemm, a, entry->second, 0);
}

TermId Terms::sum(TermId a, TermId b, int64_t shift) { return unique(TermKind::Sum, a, b, shift); }

TermId Terms::mixed() { return unique(TermKind::Mixed, static_cast<int64_t>(terms_.size()), 0, 0); }

Pieces Terms::gemmOf(const Pieces &a, const Factor &factor) {
  int64_t rowIn = factor.k * sizeOf(factor.dtype), rowOut = factor.n * sizeOf(factor.dtype);
  Pieces result;
  for (const Piece &piece : a) {
    // A row made of two blocks is a row of neither.
    if (piece.offset % rowIn != 0 || piece.bytes % rowIn != 0) {
      int64_t total = 0;
      for (const Piece &each : a)
        total += each.bytes;
      return {{mixed(), 0, total / rowIn * rowOut}};
    }
    append(result,
           {gemm(piece.term, factor), piece.offset / rowIn * rowOut, piece.bytes / rowIn * rowOut});
  }
  return result;
}

Pieces Terms::sumOf(const Pieces &a, const Pieces &b) {
  Pieces result;
  size_t i = 0, j = 0;
  int64_t usedA = 0, usedB = 0;
  while (i < a.size() && j < b.size()) {
    int64_t bytes = std::min(a[i].bytes - usedA, b[j].bytes - usedB);
    int64_t fromA = a[i].offset + usedA, fromB = b[j].offset + usedB;
    append(result, {sum(a[i].term, b[j].term, fromB - fromA), fromA, bytes});
    usedA += bytes;
    usedB += bytes;
    if (usedA == a[i].bytes)
      ++i, usedA = 0;
    if (usedB == b[j].bytes)
      ++j, usedB = 0;
  }
  return result;
}

std::string Terms::str(TermId id, const std::vector<std::string> &inputs) const {
  const Term &term = terms_[id];
  switch (term.kind) {
  case TermKind::Undefined:
    return "nothing";
  case TermKind::Input: {
    std::string owner = term.second < 0 ? "" : fmt::format(" of rank {}", term.second);
    return fmt::format("%{}{} in run {}", inputs[static_cast<size_t>(term.first)], owner,
                       term.third + 1);
  }
  case TermKind::Gemm:
    return "the matmul of " + str(static_cast<TermId>(term.first), inputs);
  case TermKind::Sum:
    return fmt::format("the sum of {} and {}", str(static_cast<TermId>(term.first), inputs),
                       str(static_cast<TermId>(term.second), inputs));
  case TermKind::Mixed:
    return "a matmul of rows that are made of several blocks";
  }
  return "";
}

} // namespace braid::checker
