//===- api/doctor/explain_failure.h - the line of the doctor's that explains a failed run -----===//
#pragma once

#include "api/doctor/check.h"

namespace braid::doctor {

struct Explanation {
  std::string line; ///< "what was seen; what to do"; empty: nothing explains it
  /// A driver does not answer, and a thread waits for it: the caller is to end the process without
  /// running destructors.
  bool isStuck = false;
};

/// For Unsupported, PeerFailed and TimedOut; nothing explains others. Looks at this machine as
/// `braid doctor` does, for 3 s at most with each source; at GPUs only if the run was on them, and
/// by CUDA only if it was refused, for a device that has failed may not answer.
Explanation explainFailure(const Status &failure, bool isOnGpus, int64_t ranks,
                           const BackendRegistry &registry);

} // namespace braid::doctor
