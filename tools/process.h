//===- tools/process.h - the streams, the memory and the exit code of a process ---------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <functional>
#include <string>
#include <vector>

namespace braid::tools {

/// Must be called first in main(). Afterwards, a write to a closed pipe or beyond a file size limit
/// is an ordinary error; descriptors 0 to 2 are open, so that no file gets their numbers; and an
/// exception on a library's thread ends the process as in exitCodeOf().
void prepareProcess();

/// Returns the exit code of the process: the result of `command`, if it returns and its output was
/// written. A closed reader is not an error. Reports other problems in one line on stderr: lack of
/// memory or threads and failed output are Unsupported; any other exception is Internal.
int exitCodeOf(const std::function<int()> &command);

/// Returns the command line of a rank: that of this process, with `extra` after `command`.
std::vector<std::string> commandLine(llvm::StringRef command,
                                     const std::vector<std::string> &extra = {});

} // namespace braid::tools
