//===- backends/cpu/queue/picker.cpp - which command of all ranks runs next -------------------===//

#include "backends/cpu/queue/picker.h"

#include "runtime/split_mix.h"

namespace braid {

Picker seededPicker(uint64_t seed) {
  return [state = seed](llvm::ArrayRef<RunnableHead> candidates) mutable -> size_t {
    return mixBits(state += kSplitMixStep) % candidates.size();
  };
}

} // namespace braid
