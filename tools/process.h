//===- tools/process.h - the streams, the memory and the exit code of a process ---------------===//
#pragma once

#include <functional>

namespace braid::tools {

/// Must be called first in main(). Afterwards, a write to a closed pipe or beyond a file size limit
/// is an ordinary error; descriptors 0 to 2 are open, so that no file gets their numbers; and an
/// exception on a library's thread ends the process as in exitCodeOf().
void prepareProcess();

/// Returns the exit code of the process: the result of `command`, if it returns and its output was
/// written. A closed reader is not an error. Reports other problems in one line on stderr: lack of
/// memory or threads and failed output are Unsupported; any other exception is Internal.
int exitCodeOf(const std::function<int()> &command);

} // namespace braid::tools
