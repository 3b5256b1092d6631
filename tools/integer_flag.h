//===- tools/integer_flag.h - flags that take texts or integers -------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace braid::tools {

/// The integers that a variable of a flag holds: itself, one that may be missing, or a list.
template <class T> struct IntegerOf { using Type = T; };
template <class T> struct IntegerOf<std::optional<T>> { using Type = T; };
template <class T> struct IntegerOf<std::vector<T>> { using Type = T; };

/// Adds a flag that takes a text, or several; help calls it `typeName`. An empty one is a mistake,
/// as of a variable of a shell that is not set.
template <class T>
CLI::Option *addText(CLI::App &app, const std::string &name, T &variable,
                     const std::string &typeName, const std::string &help) {
  auto refuse = [typeName](const std::string &text) {
    return text.empty() ? "expected " + typeName + ", got ''" : "";
  };
  return app.add_option(name, variable, help)->type_name(typeName)->check(refuse, "", "");
}

/// Adds a flag that takes a decimal integer of the variable's type. CLI11's own conversion makes
/// another number of one that does not fit, and reads 010 as 8; here the first is refused with its
/// text as it came, and the second is 10.
/// `typeName` is what help calls the value.
template <class T>
CLI::Option *addInteger(CLI::App &app, const std::string &name, T &variable,
                        const std::string &typeName, const std::string &help) {
  using Integer = typename IntegerOf<T>::Type;
  auto rewrite = [](std::string &text) -> std::string {
    Integer number = 0;
    if (llvm::StringRef(text).getAsInteger(10, number))
      return std::string("expected ") +
             (std::is_signed_v<Integer> ? "an integer of " : "a whole number of ") +
             std::to_string(8 * sizeof(Integer)) + " bits, got '" + text + "'";
    text = std::to_string(number);
    return "";
  };
  return addText(app, name, variable, typeName, help)->transform(CLI::Validator(rewrite, ""));
}

} // namespace braid::tools
