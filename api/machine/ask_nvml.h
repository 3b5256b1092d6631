//===- api/machine/ask_nvml.h - driver calls with a timeout -----------------------------------===//
#pragma once

#include "api/machine/nvml.h"
#include "ir/failure.h"
#include "runtime/job/bootstrap/start_thread.h"

#include <chrono>
#include <functional>
#include <future>
#include <memory>

namespace braid {

/// Runs `ask` on a separate thread, and returns its result. If `ask` takes longer than `patience`,
/// returns TimedOut and leaves the thread running. Callers should then exit by std::_Exit(), which
/// runs no destructors while that thread still runs. `what` names the callee in messages.
template <class Value>
Result<Value> askWithin(std::chrono::milliseconds patience, const char *what,
                        std::function<Result<Value>()> ask) {
  auto task = std::make_shared<std::packaged_task<Result<Value>()>>(std::move(ask));
  std::future<Result<Value>> answer = task->get_future();
  std::thread thread;
  BRAID_TRY(startThread(thread, "asking the driver", [task] { (*task)(); }));
  thread.detach();
  if (answer.wait_for(patience) != std::future_status::ready)
    return timedOut("the driver does not answer {} within {} ms: nvidia-smi would also hang", what,
                    patience.count());
  return answer.get();
}

/// The default timeout. A driver that has just been loaded takes a second or two per GPU.
inline constexpr std::chrono::milliseconds kNvmlPatience{20000};

/// Calls readNvml() with a timeout of `patience`.
inline Result<NvmlReport> askNvml(const Environment &environment,
                                  std::chrono::milliseconds patience = kNvmlPatience) {
  return askWithin<NvmlReport>(patience, "NVML", [environment] { return readNvml(environment); });
}

} // namespace braid
