//===- runtime/job/bootstrap/start_thread.h - starts threads and reports failures -------------===//
#pragma once

#include "runtime/job/bootstrap/socket.h"

#include <functional>
#include <future>
#include <memory>
#include <thread>

namespace braid {

/// Starts a thread that runs `body`. Returns Unsupported if the system cannot create one; the
/// message names the purpose and the limit that was reached, which most often is that of memory.
Status startThread(std::thread &thread, const char *purpose, std::function<void()> body);

/// Blocks all signals in the calling thread, so that other threads of the process handle them.
void blockSignals();

/// Calls a function that has no timeout on a separate thread, which is abandoned if it is late.
/// `call` must own everything that it uses. Returns nullopt at the deadline or if no thread can be
/// created.
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
