//===- tools/p2p.h - `braid p2p` with given backends ------------------------------------------===//
#pragma once

#include "runtime/execute/backend.h"
#include "tools/command.h"

namespace braid::tools {

/// Like addP2p() in command.h, but with the given backends instead of the built-in ones.
Command addP2p(CLI::App &app, std::function<BackendRegistry()> backends);

} // namespace braid::tools
