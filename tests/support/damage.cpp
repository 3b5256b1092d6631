//===- tests/support/damage.cpp - Plans with one damaged command ------------------------------===//

#include "tests/support/damage.h"

#include <gtest/gtest.h>

namespace braid::test {

void insertCommand(Plan &plan, size_t before, const Command &command) {
  for (PlanRelease &release : plan.releases)
    release.beforeCommand += release.beforeCommand >= before;
  plan.commands.insert(plan.commands.begin() + static_cast<std::ptrdiff_t>(before), command);
}

void eraseCommand(Plan &plan, size_t index) {
  for (PlanRelease &release : plan.releases)
    release.beforeCommand -= release.beforeCommand > index;
  plan.commands.erase(plan.commands.begin() + static_cast<std::ptrdiff_t>(index));
}

std::optional<size_t> findCommand(const Plan &plan, size_t k,
                                  llvm::function_ref<bool(const Command &)> isWanted) {
  for (size_t i = 0; i < plan.commands.size(); ++i)
    if (isWanted(plan.commands[i]) && k-- == 0)
      return i;
  return std::nullopt;
}

std::optional<size_t> findCommand(const Plan &plan, size_t k, CommandKind kind) {
  return findCommand(plan, k, [&](const Command &command) { return command.kind == kind; });
}

std::optional<bool> splitGroup(Plan &plan, size_t k) {
  const std::optional<size_t> index = findCommand(plan, k, CommandKind::Group);
  if (!index)
    return false;
  PlanGroup &group = plan.groups[plan.commands[*index].group];
  if (group.size() < 2)
    return kSame;
  Command second = plan.commands[*index];
  second.group = static_cast<uint32_t>(plan.groups.size());
  const PlanMessage last = group.back();
  group.pop_back();
  plan.groups.push_back({last});
  insertCommand(plan, *index + 1, second);
  return true;
}

void DamageCount::expectFound(const std::vector<Plan> &plans, FindFn find) {
  for (size_t i = 0; i < damages_.size(); ++i)
    for (size_t rank = 0; rank < plans.size(); ++rank)
      for (size_t k = 0;; ++k) {
        std::vector<Plan> damaged = plans;
        const std::optional<bool> done = damages_[i].damage(damaged[rank], k);
        if (done == kSame)
          continue;
        if (!*done)
          break;
        EXPECT_TRUE(find(damaged, rank)) << damages_[i].name << " " << k << " of\n"
                                         << str(plans[rank]) << "damaged\n"
                                         << str(damaged[rank]);
        ++counts_[i];
      }
}

void DamageCount::expectAtLeast(int least) const {
  for (size_t i = 0; i < damages_.size(); ++i)
    EXPECT_GE(counts_[i], least) << damages_[i].name;
}

} // namespace braid::test
