//===- api/compile/source.h - a parsed text ---------------------------------------------------===//
#pragma once

#include "api/status.h"
#include "ir/module.h"

namespace braid {

/// A text, its contents and its mistakes. Programs, Plans and runs that are made from it may refer
/// to it, so it must outlive them.
struct Source {
  explicit Source(std::string name, std::string text = "")
      : diags(std::move(name), std::move(text)) {}

  Diagnostics diags;
  Module module;
};

/// Parses a text. Messages call it `name`. Mistakes are in the result's `diags`.
std::unique_ptr<Source> parseSource(std::string name, std::string text);
/// Parses a file; "-" is standard input. Messages call it `name`, or `path` if `name` is empty.
/// Returns BadInput if the file cannot be read or exceeds 64 MiB.
Result<std::unique_ptr<Source>> readSource(const std::string &path, const std::string &name = "");

/// Returns the located mistakes of `source`, or `status` if there are none.
Status withLocated(const Status &status, const Source &source);

} // namespace braid
