//===- backends/cpu/queue/picker.cpp - chooses the next command to run ------------------------===//

#include "backends/cpu/queue/picker.h"

#include "runtime/split_mix.h"

#include <algorithm>

namespace braid {

namespace {

/// If all heads were always equally likely, a queue would hardly ever be delayed while other queues
/// run dozens of commands, although many races appear only after long delays. All heads are
/// therefore equally likely in half of the phases, and queues have priorities in the other half.
class SeededPicker {
public:
  explicit SeededPicker(uint64_t seed) : state_(seed) {}

  size_t operator()(llvm::ArrayRef<RunnableHead> candidates) {
    if (left_ == 0)
      beginPhase();
    --left_;
    if (!hasPriorities_)
      return draw() % candidates.size();
    return static_cast<size_t>(std::max_element(candidates.begin(), candidates.end(),
                                                [&](const RunnableHead &a, const RunnableHead &b) {
                                                  return priorityOf(a) < priorityOf(b);
                                                }) -
                               candidates.begin());
  }

private:
  void beginPhase() {
    constexpr uint64_t kLengths = 9; // up to 256 commands; each power of two is equally likely
    left_ = uint64_t(1) << (draw() % kLengths);
    hasPriorities_ = draw() % 2 == 0;
    priorities_ = draw();
  }

  /// Priorities are distinct, because queues have different numbers and mixBits() is a bijection.
  uint64_t priorityOf(const RunnableHead &head) const {
    return mixBits(priorities_ ^ (static_cast<uint64_t>(head.rank) << 32 | head.queue));
  }

  uint64_t draw() { return mixBits(state_ += kSplitMixStep); }

  uint64_t state_;
  uint64_t left_ = 0; ///< commands left in the current phase
  uint64_t priorities_ = 0;
  bool hasPriorities_ = false;
};

} // namespace

Picker seededPicker(uint64_t seed) { return SeededPicker(seed); }

} // namespace braid
