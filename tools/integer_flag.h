//===- tools/integer_flag.h - string flags and integer flags ----------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace braid::tools {

/// The integer type of a flag's variable, which may be an integer, an optional, or a vector.
template <class T> struct IntegerOf { using Type = T; };
template <class T> struct IntegerOf<std::optional<T>> { using Type = T; };
template <class T> struct IntegerOf<std::vector<T>> { using Type = T; };

/// Adds a flag whose values are strings, shown as `typeName` in the help. Refuses empty strings,
/// which usually come from unset shell variables.
template <class T>
CLI::Option *addText(CLI::App &app, const std::string &name, T &variable,
                     const std::string &typeName, const std::string &help) {
  auto refuse = [typeName](const std::string &text) {
    return text.empty() ? "expected " + typeName + ", got ''" : "";
  };
  return app.add_option(name, variable, help)->type_name(typeName)->check(refuse, "", "");
}

/// Adds a flag whose values are decimal integers of the variable's type, shown as `typeName` in the
/// help. Unlike CLI11's own conversion, refuses out-of-range values instead of truncating them, and
/// parses 010 as 10 instead of 8.
template <class T>
CLI::Option *addInteger(CLI::App &app, const std::string &name, T &variable,
                        const std::string &typeName, const std::string &help) {
  using Integer = typename IntegerOf<T>::Type;
  auto rewrite = [](std::string &text) -> std::string {
    Integer number = 0;
    if (llvm::StringRef(text).getAsInteger(10, number))
      return std::string("expected ") + (std::is_signed_v<Integer> ? "a " : "an unsigned ") +
             std::to_string(8 * sizeof(Integer)) + "-bit integer, got '" + text + "'";
    text = std::to_string(number);
    return "";
  };
  return addText(app, name, variable, typeName, help)->transform(CLI::Validator(rewrite, ""));
}

} // namespace braid::tools
