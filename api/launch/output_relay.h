//===- api/launch/output_relay.h - what several processes write, line by line -----------------===//
#pragma once

#include "runtime/job/bootstrap/socket.h"

#include <thread>
#include <vector>

namespace braid {

/// Passes on what each of several writers says on stdout and stderr to those of this process, a
/// line at a time, with the writer's number in front: `[2] text`. A thread does it, so that a slow
/// reader holds up nothing else.
class OutputRelay {
public:
  OutputRelay() = default;
  ~OutputRelay() { (void)finish(); }
  OutputRelay(const OutputRelay &) = delete;

  /// The ends to write to, to be closed when the writer has them.
  struct Pipes {
    FileDescriptor output, error;
  };
  /// A further writer. Before start().
  Result<Pipes> add(int64_t number);
  Status start();
  /// Blocks until all writers have closed their ends, and everything has been passed on.
  /// Unsupported if that could not be, for another reason than that nobody reads it.
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
  int error_ = 0; ///< the first of writing, by the thread
  std::thread thread_;
};

} // namespace braid
