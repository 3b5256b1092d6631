//===- tools/process.h - a process's streams, memory and exit code ----------------------------===//
#pragma once

#include <functional>

namespace braid::tools {

/// Must be called first in main(). Afterwards, writing to a closed pipe or past the file size limit
/// returns an error without raising a signal, no other file can reuse descriptors 0 to 2, and an
/// uncaught exception on a library thread is reported in the same way as by exitCodeOf() before the
/// process ends.
void prepareProcess();

/// Runs `command`, and returns the exit code of the process: the result of `command`, if all output
/// was written or the reader has closed the pipe. Otherwise prints one line on stderr, and returns
/// Unsupported (out of memory or threads, failed output) or Internal (other exceptions).
int exitCodeOf(const std::function<int()> &command);

} // namespace braid::tools
