//===- tools/process.h - the streams, the memory and the exit code of a process ---------------===//
#pragma once

#include <functional>

namespace braid::tools {

/// Must be called first in main(). Afterwards, writing to a closed pipe or past the file size limit
/// fails without a signal. Descriptors 0 to 2 are open, so no other file can reuse them. Uncaught
/// exceptions on library threads are reported as in exitCodeOf(), then end the process.
void prepareProcess();

/// Runs `command`, and returns the exit code of the process: the result of `command`, if its output
/// could be written or the reader has closed the pipe. Otherwise prints one line on stderr, and
/// returns Unsupported (out of memory or threads, failed output) or Internal (other exceptions).
int exitCodeOf(const std::function<int()> &command);

} // namespace braid::tools
