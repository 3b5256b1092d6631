//===- backends/cpu/queue/picker.cpp - which command of all ranks runs next -------------------===//

#include "backends/cpu/queue/picker.h"

namespace braid {
namespace {

/// SplitMix64: the standard library's distributions differ from one platform to another.
uint64_t nextRandom(uint64_t &state) {
  state += 0x9e3779b97f4a7c15u;
  uint64_t bits = state;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

} // namespace

Picker seededPicker(uint64_t seed) {
  return [state = seed](llvm::ArrayRef<RunnableHead> candidates) mutable -> size_t {
    return nextRandom(state) % candidates.size();
  };
}

} // namespace braid
