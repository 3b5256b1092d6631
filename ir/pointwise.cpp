//===- ir/pointwise.cpp - functions applied element by element --------------------------------===//

#include "ir/pointwise.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

struct Row {
  PointwiseFunction function;
  llvm::StringLiteral keyword;
  unsigned operands;
};

constexpr Row kRows[] = {
#define BRAID_POINTWISE(Function, keyword, operands, ...)                                          \
  {PointwiseFunction::Function, keyword, operands},
#include "ir/pointwise_functions.def"
};

const Row &rowOf(PointwiseFunction function) { return kRows[static_cast<size_t>(function)]; }

} // namespace

llvm::StringRef keyword(PointwiseFunction function) { return rowOf(function).keyword; }

std::optional<PointwiseFunction> pointwiseFromKeyword(llvm::StringRef word) {
  const auto *row = llvm::find_if(kRows, [&](const Row &each) { return each.keyword == word; });
  if (row == std::end(kRows))
    return std::nullopt;
  return row->function;
}

std::vector<std::string> pointwiseKeywords() {
  std::vector<std::string> words;
  for (const Row &row : kRows)
    words.push_back(row.keyword.str());
  return words;
}

unsigned operandCount(PointwiseFunction function) { return rowOf(function).operands; }

} // namespace braid
