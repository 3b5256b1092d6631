//===- api/launch/output_relay.h - forwards the output of several processes line by line ------===//
#pragma once

#include "runtime/job/bootstrap/socket.h"

#include <mutex>
#include <thread>
#include <vector>

namespace braid {

/// Forwards the stdout and stderr of several writers to the stdout and stderr of this process, line
/// by line and prefixed with the writer's number: `[2] text`. Each pipe has its own thread, so that
/// a slow reader does not block the caller.
class OutputRelay {
public:
  OutputRelay() = default;
  ~OutputRelay() { (void)finish(); }
  OutputRelay(const OutputRelay &) = delete;

  /// Returns the write end of a pipe for writer `number`, whose lines are forwarded to descriptor
  /// `target`, 1 or 2. The caller must close the write end once the writer has inherited it.
  Result<FileDescriptor> add(int64_t number, int target);
  /// Blocks until all writers have closed their pipes and all output has been forwarded. Returns
  /// Unsupported if output could not be written for any reason other than a closed stream.
  Status finish();

private:
  void relay(const std::string &prefix, int source, int target);

  std::mutex mutex_; ///< held while a line is written
  int error_ = 0;    ///< errno of the first failed write; guarded by mutex_
  std::vector<std::thread> threads_;
};

} // namespace braid
