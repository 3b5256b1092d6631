//===- api/calibrate/open_messages.cpp - whether every rank can send messages -----------------===//

#include "api/calibrate/open_messages.h"

#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {

Result<bool> openMessages(PlanTimer &timer, const std::function<void(const std::string &)> &warn) {
  Messages *messages = timer.device().messages();
  const Status mine = messages ? messages->openTeams({}, timer.control())
                               : unsupported("this device sends no messages");
  const std::vector<std::string> all =
      BRAID_TRY(timer.control().allGather(mine.isOk() ? "" : mine.message()));
  const auto failure = llvm::find_if(all, [](const std::string &each) { return !each.empty(); });
  if (failure == all.end())
    return true;
  const bool isMissing = mine.code() == StatusCode::Unsupported; // which is nothing to warn of
  if (timer.rank() == 0 && warn && !isMissing)
    warn(*failure);
  return false;
}

} // namespace braid
