//===- runtime/job/bootstrap/start_thread.h - threads that may not be to be had ---------------===//
#pragma once

#include "api/status.h"

#include <functional>
#include <thread>

namespace braid {

/// Starts a thread that runs `body`. Unsupported if the system has no more of them: the message
/// says what it was for and which limit stands in the way, most often that of memory.
Status startThread(std::thread &thread, const char *purpose, std::function<void()> body);

} // namespace braid
