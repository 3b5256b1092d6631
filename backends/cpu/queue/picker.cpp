//===- backends/cpu/queue/picker.cpp - which command of all ranks runs next -------------------===//

#include "backends/cpu/queue/picker.h"

#include <algorithm>
#include <map>
#include <set>

namespace braid {
namespace {

/// SplitMix64: the standard library's distributions differ from one platform to another.
class Random {
public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t bits = state_;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    return bits ^ (bits >> 31);
  }

private:
  uint64_t state_;
};

class PriorityPicker {
public:
  PriorityPicker(uint64_t seed, uint32_t changes, uint32_t steps) : random_(seed) {
    for (uint32_t i = 0; i < changes && steps != 0; ++i)
      changes_.insert(random_.next() % steps);
  }

  size_t operator()(llvm::ArrayRef<Candidate> candidates) {
    if (changes_.count(step_++))
      priority(candidates[highest(candidates)]) = --lowest_;
    return highest(candidates);
  }

private:
  int64_t &priority(const Candidate &candidate) {
    auto [entry, isNew] = priorities_.try_emplace({candidate.rank, candidate.queue}, 0);
    if (isNew)
      entry->second = static_cast<int64_t>(random_.next() >> 1);
    return entry->second;
  }

  size_t highest(llvm::ArrayRef<Candidate> candidates) {
    size_t best = 0;
    for (size_t i = 1; i < candidates.size(); ++i)
      if (priority(candidates[i]) > priority(candidates[best]))
        best = i;
    return best;
  }

  Random random_;
  std::set<uint64_t> changes_;
  std::map<std::pair<int64_t, uint32_t>, int64_t> priorities_;
  uint64_t step_ = 0;
  int64_t lowest_ = 0;
};

} // namespace

Picker seededPicker(uint64_t seed) {
  return [random = Random(seed)](llvm::ArrayRef<Candidate> candidates) mutable -> size_t {
    return random.next() % candidates.size();
  };
}

Picker priorityPicker(uint64_t seed, uint32_t changes, uint32_t steps) {
  return PriorityPicker(seed, changes, steps);
}

} // namespace braid
