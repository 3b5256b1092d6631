//===- api/autotune/kept_choices.cpp - stored choices of earlier jobs -------------------------===//

#include "api/autotune/kept_choices.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace braid {
namespace {

/// Removes the numbers from a fusion's text, except in names: "bf16[DIDx{4}, 128]" becomes
/// "bf16[DIDx{}, ]", and `numbers` gets 4 and 128.
std::string withoutNumbers(llvm::StringRef text, std::vector<double> &numbers) {
  std::string rest;
  while (!text.empty()) {
    const bool isInName = !rest.empty() && (llvm::isAlnum(rest.back()) || rest.back() == '_');
    const llvm::StringRef digits = text.take_while(llvm::isDigit);
    if (digits.empty() || isInName) {
      rest += text.front();
      text = text.drop_front();
      continue;
    }
    double number = 0;
    (void)digits.getAsDouble(number);
    numbers.push_back(std::max(number, 1.0));
    text = text.drop_front(digits.size());
  }
  return rest;
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

KeptChoices::KeptChoices(llvm::StringRef fusion, const std::string &question) {
  const llvm::StringRef nameless = fusion.drop_front(std::min(fusion.find('('), fusion.find('{')));
  const std::string text = withoutNumbers(nameless, numbers_);
  family_ = fmt::format("choice for {:016x} of ", llvm::xxHash64(text + question));
  key_ = family_ + fmt::format("{}", fmt::join(numbers_, ","));
}

std::optional<KeptChoice> KeptChoices::find(const MeasurementCache &cache) const {
  return KeptChoice::decode(cache.find(key_).value_or(""));
}

double KeptChoices::distanceTo(llvm::StringRef numbers) const {
  double distance = 0;
  for (double mine : numbers_) {
    const auto [number, rest] = numbers.split(',');
    double other = 0;
    if (number.getAsDouble(other) || !(other >= 1))
      return std::numeric_limits<double>::infinity();
    distance += std::abs(std::log(mine / other));
    numbers = rest;
  }
  return distance;
}

std::optional<KeptChoice> KeptChoices::findNearest(const MeasurementCache &cache) const {
  std::optional<KeptChoice> nearest;
  double least = std::numeric_limits<double>::infinity();
  for (const auto &[key, value] : cache.startingWith(family_)) {
    const double distance = distanceTo(llvm::StringRef(key).drop_front(family_.size()));
    std::optional<KeptChoice> choice = KeptChoice::decode(value);
    if (choice && distance < least)
      least = distance, nearest = std::move(choice);
  }
  return nearest;
}

} // namespace braid
