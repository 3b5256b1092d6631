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
  }
  llvm_unreachable("covered above");
}

std::optional<Schedule> scheduleFromName(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<Schedule>>(name)
      .Case("pairwise", Schedule::Pairwise)
      .Case("hop", Schedule::Hop)
      .Case("none", Schedule::None)
      .Default(std::nullopt);
}

} // namespace braid
