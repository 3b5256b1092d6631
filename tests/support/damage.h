//===- tests/support/damage.h - Plans with one damaged command --------------------------------===//
#pragma once

#include "runtime/plan/plan.h"

#include "llvm/ADT/ArrayRef.h"

#include <optional>

namespace braid::test {

void insertCommand(Plan &plan, size_t before, const Command &command);
void eraseCommand(Plan &plan, size_t index);
/// Returns the index of the k-th command for which `isWanted` is true, if it exists.
std::optional<size_t> findCommand(const Plan &plan, size_t k,
                                  llvm::function_ref<bool(const Command &)> isWanted);
std::optional<size_t> findCommand(const Plan &plan, size_t k, CommandKind kind);

/// Damages the k-th place in a Plan. Returns false if there is none, or nullopt if nothing changes.
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
/// Moves the last message of a group into a separate group that directly follows.
std::optional<bool> splitGroup(Plan &plan, size_t k);

/// Damages Plans in every possible place, one at a time. Expects `find`, which receives the Plans
/// and the damaged rank, to detect each damage. Counts the damaged places for each kind of damage.
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
