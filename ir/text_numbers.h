//===- ir/text_numbers.h - numbers texts ------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace braid {

/// Stores each text once, numbered from 0 in the order of first use.
class TextNumbers {
public:
  uint32_t number(std::string text) {
    auto [known, isNew] = numbers_.try_emplace(text, static_cast<uint32_t>(texts_.size()));
    if (isNew)
      texts_.push_back(std::move(text));
    return known->second;
  }
  const std::vector<std::string> &texts() const { return texts_; }

private:
  std::unordered_map<std::string, uint32_t> numbers_;
  std::vector<std::string> texts_;
};

} // namespace braid
