//===- tests/backends/nccl/stand_in.h - a library that only records ---------------------------===//
//
// Has the entry points of NCCL, and does what it is told to.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/nccl/nccl_api.h"

#include <atomic>
#include <string>
#include <vector>

namespace braid::test {

/// The state of the library, one for the process. Only the counters are thread-safe.
struct StandIn {
  int version = 22809;
  std::vector<std::string> calls; ///< "ncclSend 4 f32 to 1 comm 0 stream 7"
  /// The n-th call, from 0 on, of this function returns `code`, at once or by and by.
  struct Injected {
    std::string function;
    int call = 0;
    nccl::Code code = nccl::Code::Success;
    bool isLater = false;
  };
  std::vector<Injected> injected;
  int pollsInProgress = 0; ///< polls for which a call stays in progress; -1: for ever
  int liveCommunicators = 0;
  bool isSlow = false; ///< lets other threads go on in each call
  int openGroups = 0;
  nccl::Code background = nccl::Code::Success; ///< found by the library itself
  std::atomic<int> inside{0};                  ///< threads that are in a call, but for aborts
  std::atomic<int> together{0};                ///< times that two calls were
};

/// Type of `braidStandIn`, which returns the state of the library.
using FindStandIn = StandIn *(*)();

} // namespace braid::test
