//===- api/calibrate/open_messages.cpp - whether every rank can send messages -----------------===//

#include "api/calibrate/open_messages.h"

#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {

Status openMessages(PlanTimer &timer, std::vector<Transport> &transports,
                    const std::function<void(const std::string &)> &warn, const std::string &what) {
  if (transports.size() == 1)
    return Status::ok();
  Messages *messages = timer.device().messages();
  const Status mine = messages ? messages->openTeams({}, timer.control())
                               : unsupported("this device sends no messages");
  const std::vector<std::string> all =
      BRAID_TRY(timer.control().allGather(mine.isOk() ? "" : mine.message()));
  const auto failure = llvm::find_if(all, [](const std::string &each) { return !each.empty(); });
  if (failure == all.end())
    return Status::ok();
  const bool isMissing = mine.code() == StatusCode::Unsupported; // which is nothing to warn of
  if (timer.rank() == 0 && warn && !isMissing)
    warn(what + ": " + *failure);
  llvm::erase_value(transports, Transport::Messages);
  return Status::ok();
}

} // namespace braid
