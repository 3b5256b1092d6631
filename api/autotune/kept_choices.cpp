//===- api/autotune/kept_choices.cpp - stored choices of earlier jobs -------------------------===//

#include "api/autotune/kept_choices.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace braid {
namespace {

/// Moves all numbers that are not part of names from a fusion's text to `numbers`: "bf16[DIDx{4},
/// 128]" becomes "bf16[DIDx{}, ]", and `numbers` becomes "4,128".
std::string withoutNumbers(llvm::StringRef text, std::string &numbers) {
  std::string rest;
  while (!text.empty()) {
    const bool isInName = !rest.empty() && (llvm::isAlnum(rest.back()) || rest.back() == '_');
    const llvm::StringRef digits = text.take_while(llvm::isDigit);
    if (digits.empty() || isInName) {
      rest += text.front();
      text = text.drop_front();
      continue;
    }
    numbers += (numbers.empty() ? "" : ",") + digits.str();
    text = text.drop_front(digits.size());
  }
  return rest;
}

/// If any size differs by this factor or more, another schedule is often faster.
constexpr double kTooFar = 2;

/// Returns the sum of the absolute log ratios of the sizes, or infinity if the counts differ, or if
/// two sizes are too far apart.
double distance(llvm::StringRef sizes, llvm::StringRef others) {
  double sum = 0;
  while (!sizes.empty()) {
    double size = 0, other = 0;
    if (sizes.split(',').first.getAsDouble(size) || others.split(',').first.getAsDouble(other))
      return std::numeric_limits<double>::infinity();
    const double ratio = std::max(size, 1.0) / std::max(other, 1.0);
    if (ratio >= kTooFar || ratio <= 1 / kTooFar)
      return std::numeric_limits<double>::infinity();
    sum += std::abs(std::log(ratio));
    sizes = sizes.split(',').second;
    others = others.split(',').second;
  }
  return sum;
}

} // namespace

std::string KeptChoice::encode() const { return fmt::format("{} {}", seconds, schedule.str()); }

std::optional<KeptChoice> KeptChoice::decode(llvm::StringRef text) {
  auto [seconds, schedule] = text.split(' ');
  double number = 0;
  Result<Configurations> parsed = Configurations::parse(schedule);
  if (seconds.getAsDouble(number) || schedule.empty() || !parsed)
    return std::nullopt;
  return KeptChoice{number, std::move(*parsed)};
}

std::string choiceKey(llvm::StringRef fusion, const std::string &question) {
  const llvm::StringRef nameless = fusion.drop_front(std::min(fusion.find('('), fusion.find('{')));
  std::string sizes;
  const std::string text = withoutNumbers(nameless, sizes);
  return fmt::format("choice for {:016x} of {}", llvm::xxHash64(text + question), sizes);
}

std::optional<KeptChoice> nearestChoice(const MeasurementCache &cache, llvm::StringRef key) {
  const auto [family, sizes] =
      std::pair(key.take_front(key.rfind(' ') + 1), key.rsplit(' ').second);
  std::optional<KeptChoice> nearest;
  double least = std::numeric_limits<double>::infinity();
  for (const auto &[other, value] : cache.startingWith(family.str())) {
    const double far = distance(sizes, llvm::StringRef(other).drop_front(family.size()));
    std::optional<KeptChoice> choice = KeptChoice::decode(value);
    if (choice && far < least)
      least = far, nearest = std::move(choice);
  }
  return nearest;
}

} // namespace braid
