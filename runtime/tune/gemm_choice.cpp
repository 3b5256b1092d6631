//===- runtime/tune/gemm_choice.cpp - the measured algorithm of a GEMM ------------------------===//

#include "runtime/tune/gemm_choice.h"

#include "ir/failure.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <cmath>

namespace braid {

std::string GemmChoice::encode() const {
  return fmt::format("{:.2f} {}", microseconds, llvm::toHex(algorithm, /*LowerCase=*/true));
}

Result<GemmChoice> GemmChoice::decode(const std::string &text) {
  auto [time, hex] = llvm::StringRef(text).split(' ');
  GemmChoice choice;
  const bool isRead = !time.getAsDouble(choice.microseconds) &&
                      std::isfinite(choice.microseconds) && choice.microseconds > 0 &&
                      llvm::tryGetFromHex(hex, choice.algorithm);
  if (!isRead || choice.encode() != text)
    return badInput("expected a measured GEMM, got '{}'", text.substr(0, 60));
  return choice;
}

} // namespace braid
