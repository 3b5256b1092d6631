//===- lowering/options.cpp - names of the lowering options ----------------------------------===//

#include "lowering/options.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/ErrorHandling.h"

namespace braid {

llvm::StringRef name(Schedule schedule) {
  switch (schedule) {
  case Schedule::Pairwise:
    return "pairwise";
  case Schedule::Hop:
    return "hop";
  case Schedule::None:
    return "none";
  case Schedule::Burst:
    return "burst";
  case Schedule::Fused:
    return "fused";
  case Schedule::Doubling:
    return "doubling";
  }
  llvm_unreachable("covered above");
}

std::optional<Schedule> scheduleFromName(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<Schedule>>(name)
      .Case("pairwise", Schedule::Pairwise)
      .Case("hop", Schedule::Hop)
      .Case("none", Schedule::None)
      .Case("burst", Schedule::Burst)
      .Case("fused", Schedule::Fused)
      .Case("doubling", Schedule::Doubling)
      .Default(std::nullopt);
}

llvm::ArrayRef<Schedule> allSchedules() {
  static constexpr Schedule kAll[] = {Schedule::Pairwise, Schedule::Hop,   Schedule::None,
                                      Schedule::Burst,    Schedule::Fused, Schedule::Doubling};
  return kAll;
}

bool multipliesWhole(Schedule schedule) {
  return schedule == Schedule::None || schedule == Schedule::Fused;
}

bool postsTogether(Schedule schedule) {
  return schedule == Schedule::Burst || schedule == Schedule::Fused;
}

llvm::StringRef name(Transfers transfers) {
  return transfers == Transfers::Each ? "each" : "shared";
}

std::optional<Transfers> transfersFromName(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<Transfers>>(name)
      .Case("each", Transfers::Each)
      .Case("shared", Transfers::Shared)
      .Default(std::nullopt);
}

bool halvesLastProduct(const LoweringOptions &options) {
  return options.schedule == Schedule::Doubling && options.taper > 1;
}

} // namespace braid
