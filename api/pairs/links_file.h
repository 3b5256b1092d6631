//===- api/pairs/links_file.h - which devices ranks get, by what was measured -----------------===//
#pragma once

#include "api/machine/ask_nvml.h"
#include "api/pairs/pair_report.h"
#include "api/status.h"

#include "llvm/ADT/ArrayRef.h"

namespace braid {

/// Where ranks run: rank r on the device with uuids[r].
struct LinkedRanks {
  std::vector<std::string> uuids;
  std::string sentence; ///< why, for people
};

/// The devices of `report` in the order that is best for a mesh, without those that are better left
/// out; of fewer ranks, those that follow one another in it by the fastest hops. `host` and `uuids`
/// are of this machine. BadInput if the report is of another one, and says how they differ, or if
/// it has not got as many devices for ranks.
Result<LinkedRanks> chooseByLinks(const PairReport &report, int64_t ranks, const std::string &host,
                                  llvm::ArrayRef<std::string> uuids);

/// The same of a file that `braid p2p --json` has written, on this machine. BadInput for any other
/// file; Unsupported if NVML does not say which GPUs are here, TimedOut if it says nothing within
/// `patience`.
Result<LinkedRanks> readLinks(const std::string &path, int64_t ranks,
                              std::chrono::milliseconds patience = kNvmlPatience);

/// Makes CUDA show the processes of a job these devices only, in this order; empty if there are
/// none.
std::vector<std::pair<std::string, std::string>> environmentOf(const LinkedRanks &linked);

} // namespace braid
