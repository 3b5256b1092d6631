//===- tests/backends/nccl/stand_in.h - a fake NCCL that records calls ------------------------===//
//
// Provides the entry points of NCCL. Tests set the results of calls and read the recorded calls.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/nccl/nccl_api.h"

#include <atomic>
#include <string>
#include <vector>

namespace braid::test {

/// The state of the library, shared by the process. Only the counters are thread-safe.
struct StandIn {
  int version = 22809;
  std::vector<std::string> calls; ///< "ncclSend 4 f32 to 1 comm 0 stream 7"
  /// Call number `call` (from 0) of this function returns `code`, immediately or after some polls.
  struct Injected {
    std::string function;
    int call = 0;
    nccl::Code code = nccl::Code::Success;
    bool isLater = false;
  };
  std::vector<Injected> injected;
  int pollsInProgress = 0; ///< polls until a call completes; -1 means never
  int liveCommunicators = 0;
  bool isSlow = false; ///< yields to other threads in each call
  int openGroups = 0;
  /// An error that the library detects in the background.
  nccl::Code background = nccl::Code::Success;
  std::atomic<int> inside{0};   ///< threads inside a call, excluding aborts
  std::atomic<int> together{0}; ///< number of calls that overlapped another call
};

/// Type of `braidStandIn`, which returns the state of the library.
using FindStandIn = StandIn *(*)();

} // namespace braid::test
