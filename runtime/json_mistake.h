//===- runtime/json_mistake.h - where a text is no JSON ---------------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <nlohmann/json.hpp>

#include <string>

namespace braid {

/// "3:14", line and column of a byte, which is counted from 1 on, as the parser does; 0 is the
/// first.
std::string lineAndColumn(llvm::StringRef text, size_t byte);

/// What the parser refused: "3:14: expected JSON", or "3:14: expected a finite number, got 1e999".
std::string jsonMistake(llvm::StringRef text, const nlohmann::json::exception &error);

} // namespace braid
