//===- api/launch/output_relay.h - forwards the output of several processes line by line ------===//
#pragma once

#include "runtime/job/bootstrap/socket.h"

#include <thread>
#include <vector>

namespace braid {

/// Forwards the stdout and stderr of several writers to those of this process, one line at a time,
/// with the writer's number as a prefix: `[2] text`. A separate thread does this, so that a slow
/// reader does not block the caller.
class OutputRelay {
public:
  OutputRelay() = default;
  ~OutputRelay() { (void)finish(); }
  OutputRelay(const OutputRelay &) = delete;

  /// The write ends of the pipes. The caller must close them once the writer has inherited them.
  struct Pipes {
    FileDescriptor output, error;
  };
  /// Adds a writer. Must be called before start().
  Result<Pipes> add(int64_t number);
  Status start();
  /// Blocks until all writers have closed their ends and all output has been forwarded. Returns
  /// Unsupported if output could not be written for a reason other than a closed reader.
  Status finish();

private:
  struct Source {
    std::string prefix;
    FileDescriptor pipe;
    int target; ///< 1 or 2
    std::string pending;
  };
  void relay();
  static bool readSome(Source &source);
  void passOn(Source &source, bool isEnd);

  std::vector<Source> sources_;
  int error_ = 0; ///< errno of the first failed write, set by the thread
  std::thread thread_;
};

} // namespace braid
