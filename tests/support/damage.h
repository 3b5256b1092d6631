//===- tests/support/damage.h - Plans that are damaged in one place ---------------------------===//
#pragma once

#include "runtime/plan/plan.h"

#include "llvm/ADT/ArrayRef.h"

#include <optional>

namespace braid::test {

void insertCommand(Plan &plan, size_t before, const Command &command);
void eraseCommand(Plan &plan, size_t index);
/// The k-th command that `isWanted`, or none.
std::optional<size_t> findCommand(const Plan &plan, size_t k,
                                  llvm::function_ref<bool(const Command &)> isWanted);
std::optional<size_t> findCommand(const Plan &plan, size_t k, CommandKind kind);

/// Damages the k-th place of a rank. False: there is none. Nothing: it would be no damage.
using DamageFn = std::optional<bool> (*)(Plan &plan, size_t k);
inline constexpr std::optional<bool> kSame = std::nullopt;

struct NamedDamage {
  const char *name;
  DamageFn damage;
};

template <CommandKind Kind> std::optional<bool> dropCommand(Plan &plan, size_t k) {
  const std::optional<size_t> index = findCommand(plan, k, Kind);
  if (index)
    eraseCommand(plan, *index);
  return index.has_value();
}
/// Moves the last message of a group into a group of its own, right after the first one.
std::optional<bool> splitGroup(Plan &plan, size_t k);

/// Damages the Plans in every place that there is, one at a time, and expects `find` to find each
/// damage, and at least `least` places for each kind of it. `find` has the number of the rank.
using FindFn = llvm::function_ref<bool(const std::vector<Plan> &damaged, size_t rank)>;
class DamageCount {
public:
  explicit DamageCount(llvm::ArrayRef<NamedDamage> damages)
      : damages_(damages), counts_(damages.size()) {}
  void expectFound(const std::vector<Plan> &plans, FindFn find);
  void expectAtLeast(int least) const;

private:
  llvm::ArrayRef<NamedDamage> damages_;
  std::vector<int> counts_;
};

} // namespace braid::test
