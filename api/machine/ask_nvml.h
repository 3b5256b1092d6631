//===- api/machine/ask_nvml.h - calls drivers, which may never return -------------------------===//
#pragma once

#include "api/machine/nvml.h"
#include "ir/failure.h"
#include "runtime/job/bootstrap/start_thread.h"

#include <chrono>
#include <functional>
#include <future>
#include <memory>

namespace braid {

/// Returns the result of `ask`, which runs on a separate thread. Blocks for at most `patience`;
/// then returns TimedOut, and the thread stays until the process ends. After TimedOut, callers
/// should exit by std::_Exit(), which runs no destructors under that thread. Messages use `what`.
template <class Value>
Result<Value> askWithin(std::chrono::milliseconds patience, const char *what,
                        std::function<Result<Value>()> ask) {
  auto task = std::make_shared<std::packaged_task<Result<Value>()>>(std::move(ask));
  std::future<Result<Value>> answer = task->get_future();
  std::thread thread;
  BRAID_TRY(startThread(thread, "asking the driver", [task] { (*task)(); }));
  thread.detach();
  if (answer.wait_for(patience) != std::future_status::ready)
    return timedOut("the driver does not answer {} within {} ms: nvidia-smi would hang, too", what,
                    patience.count());
  return answer.get();
}

/// A driver that has just been loaded needs a second or two for each GPU.
inline constexpr std::chrono::milliseconds kNvmlPatience{20000};

/// Calls readNvml(), and waits at most `patience`.
inline Result<NvmlReport> askNvml(const Environment &environment,
                                  std::chrono::milliseconds patience = kNvmlPatience) {
  return askWithin<NvmlReport>(patience, "NVML", [environment] { return readNvml(environment); });
}

} // namespace braid
