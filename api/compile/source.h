//===- api/compile/source.h - a text, read and understood -------------------------------------===//
#pragma once

#include "api/status.h"
#include "ir/module.h"

namespace braid {

/// A text with what it holds and what was wrong with it. Everything made from it (programs, Plans,
/// runs) may refer to it, so it lives longest.
struct Source {
  explicit Source(std::string name, std::string text = "")
      : diags(std::move(name), std::move(text)) {}

  Diagnostics diags;
  Module module;
};

/// Parses a text; `name` is what messages call it. What is wrong is in `diags` of the result.
std::unique_ptr<Source> parseSource(std::string name, std::string text);
/// The same for a file; "-" is standard input. Messages call it `name`, if that is not empty.
/// BadInput if it cannot be read, or exceeds 64 MiB.
Result<std::unique_ptr<Source>> readSource(const std::string &path, const std::string &name = "");

/// `status`, or if `source` has located mistakes, these: for a caller who will not see `source`.
Status withLocated(const Status &status, const Source &source);

} // namespace braid
