//===- runtime/job/bootstrap/other_hosts.h - what joins the meetings of a job's hosts ---------===//
//
// Each host of a job has a rendezvous of its own, which its ranks are connected to. Those of other
// hosts are reached through this. It passes on what all ranks have to hear of, by way of the job
// memory where that has a place for it: aborts, and where ranks are.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <poll.h>

namespace braid {

/// What ranks have said in one all-gather, in rank order.
struct GatheredParts {
  uint32_t sequence = 0;
  uint32_t step = 0; ///< that all of them have done; 0: they commit nothing
  std::vector<std::string> parts = {};
};

/// All calls are made by the rendezvous' thread. None blocks.
class OtherHosts {
public:
  /// Tells the other hosts that this one is done, if that was not done.
  virtual ~OtherHosts() = default;
  virtual void addDescriptors(std::vector<pollfd> &events) = 0;
  /// `events`: what addDescriptors() added, after poll(); or none, to look at clocks and at the job
  /// memory only.
  virtual void serve(llvm::ArrayRef<pollfd> events) = 0;
  /// What all ranks of this host have said. Once for each sequence.
  virtual void bring(GatheredParts parts) = 0;
  /// What all ranks have said, for which a step is committed already; nothing, as long as somebody
  /// is missing.
  virtual std::optional<GatheredParts> takeGathered() = 0;
};

} // namespace braid
