//===- tests/mutation/priority_picker.cpp - a Picker that favors rare orders ------------------===//

#include "tests/mutation/priority_picker.h"

#include "tests/support/dice.h"

#include "llvm/ADT/DenseMap.h"

#include <limits>
#include <set>

namespace braid::test {
namespace {

class PriorityPicker {
public:
  PriorityPicker(uint64_t seed, uint32_t changes, uint32_t steps) : random_(seed) {
    for (uint32_t i = 0; i < changes && steps != 0; ++i)
      changes_.insert(random_.below(steps));
  }

  size_t operator()(llvm::ArrayRef<RunnableHead> candidates) {
    if (changes_.count(step_++))
      priority(candidates[highest(candidates)]) = --lowest_;
    return highest(candidates);
  }

private:
  int64_t &priority(const RunnableHead &candidate) {
    const auto [entry, isNew] = priorities_.try_emplace({candidate.rank, candidate.queue}, 0);
    if (isNew)
      entry->second = random_.below(std::numeric_limits<int64_t>::max());
    return entry->second;
  }

  size_t highest(llvm::ArrayRef<RunnableHead> candidates) {
    size_t best = 0;
    int64_t most = priority(candidates[0]);
    for (size_t i = 1; i < candidates.size(); ++i)
      if (const int64_t other = priority(candidates[i]); other > most) {
        best = i;
        most = other;
      }
    return best;
  }

  Dice random_;
  std::set<int64_t> changes_;
  llvm::DenseMap<std::pair<int64_t, uint32_t>, int64_t> priorities_;
  int64_t step_ = 0;
  int64_t lowest_ = 0;
};

} // namespace

Picker priorityPicker(uint64_t seed, uint32_t changes, uint32_t steps) {
  return PriorityPicker(seed, changes, steps);
}

} // namespace braid::test
