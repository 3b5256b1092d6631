//===- api/calibrate/measure_messages.cpp - measures what messages cost -----------------------===//

#include "api/calibrate/calibrate.h"
#include "api/calibrate/calibration_programs.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace braid {
namespace {

using Kind = std::optional<CollectiveKind>;

/// Small messages need a longer chain.
int chainOf(int64_t bytes) { return bytes <= int64_t(1) << 20 ? 8 : 2; }

Status measure(CostModel &model, Kind kind, int64_t bytes, PlanTimer &timer,
               const CalibrationOptions &options) {
  const calibration::Mesh mesh(timer);
  const int chain = chainOf(bytes);
  const std::vector<RunTime> times = BRAID_TRY(calibration::timeProgram(
      timer, "timing a " + nameOfMessage(kind),
      kind ? calibration::collectives(mesh, *kind, bytes, chain)
           : calibration::transferChain(mesh, Protocol::Get, bytes, chain),
      {.launchModes = options.launchModes, .transport = Transport::Messages}));
  for (const auto &[launchMode, time] : llvm::zip(options.launchModes, times)) {
    const OperationCosts &costs = *model.find(launchMode, options.transferModes.front());
    model.add(
        MessageCost{launchMode, kind, bytes, std::max((time.us - costs.runUs) / chain, kLeastUs)});
  }
  return Status::ok();
}

bool isKnown(const CostModel &model, Kind kind, int64_t bytes, const CalibrationOptions &options) {
  return llvm::all_of(options.launchModes, [&](LaunchMode mode) {
    return llvm::any_of(model.messages, [&](const MessageCost &cost) {
      return cost.isOfSame({mode, kind, bytes});
    });
  });
}

} // namespace

Status openMessages(PlanTimer &timer, std::vector<Transport> &transports,
                    const std::function<void(const std::string &)> &warn,
                    const std::string &consequence) {
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
  const bool isMissing = mine.code() == StatusCode::Unsupported; // needs no warning
  if (timer.rank() == 0 && warn && !isMissing)
    warn(consequence + ": " + *failure);
  llvm::erase_value(transports, Transport::Messages);
  return Status::ok();
}

void addMessageSizes(const Plan &plan, MessageSizes &sizes) {
  for (const Command &command : plan.commands)
    if (command.kind == CommandKind::Group || command.kind == CommandKind::Collective) {
      int64_t &most = sizes[kindOfMessage(plan, command)];
      most = std::max(most, bytesOfMessage(plan, command));
    }
}

Result<bool> measureMessages(CostModel &model, const MessageSizes &sizes, PlanTimer &timer,
                             const CalibrationOptions &options) {
  constexpr int64_t kLeastBytes = int64_t(4) << 10, kMostBytes = int64_t(1) << 30, kGrowth = 4;
  ProgressStep progress(options.progress, "sending", "kinds of messages", sizes.size());
  bool hasMeasured = false;
  for (const auto &[kind, most] : sizes) {
    bool isLast = false;
    for (int64_t bytes = kLeastBytes; bytes <= kMostBytes && !isLast; bytes *= kGrowth) {
      isLast = bytes >= most;
      if (isKnown(model, kind, bytes, options))
        continue;
      BRAID_TRY(measure(model, kind, bytes, timer, options));
      hasMeasured = true;
    }
    progress.advance();
  }
  return hasMeasured;
}

} // namespace braid
