//===- runtime/job/bootstrap/start_thread.h - threads that may not be to be had ---------------===//
#pragma once

#include "runtime/job/bootstrap/socket.h"

#include <functional>
#include <future>
#include <memory>
#include <thread>

namespace braid {

/// Starts a thread that runs `body`. Unsupported if the system has no more of them: the message
/// says what it was for and which limit stands in the way, most often that of memory.
Status startThread(std::thread &thread, const char *purpose, std::function<void()> body);

/// Called by a thread: signals are for the process's other threads.
void blockSignals();

/// Calls a function that knows no deadline, on a thread that is left behind if it is late: `call`
/// owns all that it uses. Nothing at the deadline, or if there is no thread.
template <class Answer>
std::optional<Answer> callWithin(Deadline deadline, const char *purpose,
                                 std::function<Answer()> call) {
  auto answer = std::make_shared<std::promise<Answer>>();
  std::future<Answer> future = answer->get_future();
  std::thread thread;
  if (!startThread(thread, purpose, [=] { answer->set_value(call()); }).isOk())
    return std::nullopt;
  thread.detach();
  if (future.wait_until(deadline) != std::future_status::ready)
    return std::nullopt;
  return future.get();
}

} // namespace braid
