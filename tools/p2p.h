//===- tools/p2p.h - what `braid p2p` was asked for, and what it prints -----------------------===//
#pragma once

#include "api/pairs/measure_pairs.h"
#include "runtime/execute/backend.h"
#include "tools/command.h"

namespace braid::tools {

struct P2pFlags {
  std::optional<std::string> backend;
  std::optional<int64_t> ranks;
  std::vector<int64_t> devices;
  std::vector<std::string> paths;
  std::vector<int64_t> sizes;
  std::optional<int64_t> minBytes, maxBytes;
  int64_t timeoutMs = 20000;
  bool allPaths = false;
  std::string json, html, svg;
  bool writesToStandardOutput() const; ///< of a file
  std::optional<int> results;          ///< of a process that measures: where it says what
};

/// As in command.h; `backends` are those that it may measure.
Command addP2p(CLI::App &app, std::function<BackendRegistry()> backends);

/// The paths and sizes that the flags name. BadInput names the flag.
Status readP2pFlags(const P2pFlags &flags, MeasureOptions &options);
/// Prints the report, and writes the files that were asked for. What was interrupted replaces no
/// file: it goes beside it, and a line on stderr says where. Unsupported if one cannot be written.
Status printP2p(const P2pFlags &flags, const PairReport &report, bool isInterrupted);

} // namespace braid::tools
