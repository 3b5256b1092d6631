//===- api/compile/source.h - a parsed text ---------------------------------------------------===//
#pragma once

#include "api/status.h"
#include "ir/module.h"

namespace braid {

/// A source text, its module and its diagnostics. Must outlive all programs, Plans and runs made
/// from it, because they may refer to it.
struct Source {
  explicit Source(std::string name, std::string text = "")
      : diags(std::move(name), std::move(text)) {}

  Diagnostics diags;
  Module module;
};

/// Parses `text`, named `name` in diagnostics. Errors are added to the result's `diags`.
std::unique_ptr<Source> parseSource(std::string name, std::string text);
/// Parses the file `path`, or standard input for "-". Diagnostics name the file `name`, or `path`
/// if `name` is empty. Returns BadInput if the file cannot be read or exceeds 64 MiB.
Result<std::unique_ptr<Source>> readSource(const std::string &path, const std::string &name = "");

/// Replaces the message of a failed `status` with the errors in `source.diags`, if any.
Status withLocated(const Status &status, const Source &source);

} // namespace braid
