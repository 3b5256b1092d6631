//===- api/launch/ask_in_process.h - asks whoever may never answer ----------------------------===//
//
// A call into a driver may never come back, and then nobody can end it: not its thread, and, where
// it waits inside the kernel, not even its process, which then cannot end either. So such a call is
// made by a child, which is given up.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <chrono>
#include <string>

namespace braid {

/// What `ask` returns, called in a copy of this process that has one thread: it sees what is here,
/// and what it changes is lost. Blocks, at most for `patience` and a moment. TimedOut: there was no
/// answer; PeerFailed: the copy died, "killed by signal 11 (Segmentation fault)"; Unsupported:
/// there can be no further process. Not to be called while this process uses what `ask` uses.
Result<std::string> askInProcess(llvm::function_ref<std::string()> ask,
                                 std::chrono::milliseconds patience);

} // namespace braid
