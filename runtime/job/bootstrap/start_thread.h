//===- runtime/job/bootstrap/start_thread.h - starts threads and reports failures -------------===//
#pragma once

#include "api/status.h"

#include <functional>
#include <thread>

namespace braid {

/// Starts a thread that runs `body`. Returns Unsupported if the system cannot create a thread; the
/// message names `purpose` and the resource limit that was probably reached, most often memory.
Status startThread(std::thread &thread, const char *purpose, std::function<void()> body);

/// Blocks all signals in the calling thread, so that other threads of the process handle them.
void blockSignals();

} // namespace braid
