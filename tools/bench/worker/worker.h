//===- tools/bench/worker/worker.h - who times rows on request --------------------------------===//
#pragma once

#include "tools/bench/worker/answer.h"

namespace braid::tools {

/// Answers requests, one at a time. Not thread-safe.
class BenchWorker {
public:
  virtual ~BenchWorker() = default;
  /// Starts it, unless it runs, and blocks until it is ready.
  virtual Status start() = 0;
  /// Blocks until there is an answer. After a failure it no longer runs; the failure is that of the
  /// request. Call start() before.
  virtual Result<Answer> ask(nlohmann::json request) = 0;
};

} // namespace braid::tools
