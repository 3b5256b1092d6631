//===- api/machine/ask_nvml.h - asks drivers, which may never answer --------------------------===//
#pragma once

#include "api/machine/nvml.h"
#include "ir/failure.h"
#include "runtime/job/bootstrap/start_thread.h"

#include <chrono>
#include <functional>
#include <future>
#include <memory>

namespace braid {

/// Returns what `ask` returns, called on a thread of its own. Blocks for `patience` at most; then
/// TimedOut, and the thread stays until the process ends. A caller that saw TimedOut should end by
/// std::_Exit(), which runs no destructors under that thread. `what` is asked, "NVML".
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

/// A driver that has just been loaded takes a second or two for each GPU.
inline constexpr std::chrono::milliseconds kNvmlPatience{20000};

/// As readNvml(), within `patience`.
inline Result<NvmlReport> askNvml(const Environment &environment,
                                  std::chrono::milliseconds patience = kNvmlPatience) {
  return askWithin<NvmlReport>(patience, "NVML", [environment] { return readNvml(environment); });
}

} // namespace braid
