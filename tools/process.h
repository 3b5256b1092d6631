//===- tools/process.h - what surrounds a command: its streams, its memory, its exit code -----===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <functional>
#include <string>
#include <vector>

namespace braid::tools {

/// To be called first in main(). From then on a write to a closed pipe, or past a limit on files,
/// is an error like any other; descriptors 0 to 2 are open, so that no file takes their place; and
/// an exception on a thread of a library ends the process as exitCodeOf() says.
void prepareProcess();

/// The exit code of the process: the result of `command`, if it returns and its output has arrived.
/// A reader that has gone is no error. Reports other problems in one line on stderr: missing memory
/// or threads, and output that cannot be written, are Unsupported; any other exception is Internal.
int exitCodeOf(const std::function<int()> &command);

/// Whether what is written to that descriptor is to be coloured: somebody looks at it on a
/// terminal, and has not said that they want none (https://no-color.org).
bool wantsColours(int descriptor);

/// The command line of a rank: this process's own, with `extra` behind the subcommand `command`.
std::vector<std::string> commandLine(llvm::StringRef command,
                                     const std::vector<std::string> &extra = {});

} // namespace braid::tools
