//===- api/calibrate/measure_messages.cpp - measures what messages cost -----------------------===//

#include "api/calibrate/calibrate.h"
#include "api/calibrate/calibration_programs.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace braid {
namespace {

constexpr int64_t kLeastBytes = int64_t(4) << 10, kMostBytes = int64_t(1) << 30;
constexpr int64_t kGrowth = 4;

using Kind = std::optional<CollectiveKind>;

/// Small messages need a longer chain.
int chainOf(int64_t bytes) { return bytes <= int64_t(1) << 20 ? 8 : 2; }

std::string textOf(const calibration::Mesh &mesh, Kind kind, int64_t bytes) {
  return kind ? calibration::collectives(mesh, *kind, bytes, chainOf(bytes))
              : calibration::transferChain(mesh, Protocol::Get, bytes, chainOf(bytes));
}

Status measure(CostModel &model, Kind kind, int64_t bytes, PlanTimer &timer,
               const CalibrationOptions &options) {
  std::vector<Plan> plans = BRAID_TRY(calibration::plansOf(
      textOf({timer.ranks(), timer.ranksPerHost()}, kind, bytes), Transport::Messages));
  Result<std::vector<RunTime>> times =
      timer.time(std::move(plans), options.launchModes, options.effort, TransferMode());
  if (!times)
    return times.status().annotated("timing a " + nameOfMessage(kind));
  for (size_t mode = 0; mode < times->size(); ++mode) {
    const LaunchMode launchMode = options.launchModes[mode];
    const OperationCosts &costs = *model.find(launchMode, options.transferModes.front());
    const double us = ((*times)[mode].us - costs.runUs - costs.apartUs) / chainOf(bytes);
    model.add(MessageCost{launchMode, kind, bytes, std::max(us, kLeastUs)});
  }
  return Status::ok();
}

bool isKnown(const CostModel &model, Kind kind, int64_t bytes, const CalibrationOptions &options) {
  return llvm::all_of(options.launchModes, [&](LaunchMode mode) {
    return llvm::any_of(model.messages, [&](const MessageCost &cost) {
      return cost.launchMode == mode && cost.collective == kind && cost.bytes == bytes;
    });
  });
}

} // namespace

MessageSizes messageSizesOf(const Plan &plan) {
  MessageSizes sizes;
  for (const Command &command : plan.commands)
    if (command.kind == CommandKind::Group || command.kind == CommandKind::Collective) {
      int64_t &most = sizes[kindOfMessage(plan, command)];
      most = std::max(most, bytesOfMessage(plan, command));
    }
  return sizes;
}

Result<bool> measureMessages(CostModel &model, const MessageSizes &sizes, PlanTimer &timer,
                             const CalibrationOptions &options) {
  bool hasMeasured = false;
  for (const auto &[kind, most] : sizes)
    for (int64_t bytes = kLeastBytes; bytes <= kMostBytes; bytes *= kGrowth) {
      if (!isKnown(model, kind, bytes, options)) {
        BRAID_TRY(measure(model, kind, bytes, timer, options));
        hasMeasured = true;
      }
      if (bytes >= most)
        break;
    }
  return hasMeasured;
}

} // namespace braid
