//===- lowering/schedule/presets.cpp - named schedules ----------------------------------------===//

#include "lowering/schedule/configuration.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

using namespace schedule;

constexpr Knob kFields[] = {Knob::Order, Knob::Posting, Knob::Granularity, Knob::Placement,
                            Knob::Transfers};

Configuration fields(Order order, Posting posting, Granularity granularity, Placement placement,
                     Transfers transfers = Transfers::Pairs) {
  return Configuration()
      .set(Knob::Order, order)
      .set(Knob::Posting, posting)
      .set(Knob::Granularity, granularity)
      .set(Knob::Placement, placement)
      .set(Knob::Transfers, transfers);
}

} // namespace

llvm::ArrayRef<Knob> presetFields() { return kFields; }

llvm::ArrayRef<Preset> presets() {
  // clang-format off
  static const std::vector<Preset> all = {
      {"pairwise", fields(Order::Shift, Posting::Each, Granularity::Chunk, Placement::Each)},
      {"ring", fields(Order::Ring, Posting::Each, Granularity::Chunk, Placement::Ring)},
      {"sequential", fields(Order::Shift, Posting::Each, Granularity::Whole, Placement::Each)},
      {"batched", fields(Order::Shift, Posting::All, Granularity::Chunk, Placement::Shared)},
      {"bulk", fields(Order::Shift, Posting::All, Granularity::Whole, Placement::Caller)},
      {"coalesced", fields(Order::Xor, Posting::Each, Granularity::Geometric, Placement::Shared)},
      {"hierarchical",
       fields(Order::Hierarchical, Posting::Each, Granularity::Chunk, Placement::Each)},
      {"collective", fields(Order::Shift, Posting::Each, Granularity::Chunk, Placement::Each,
                            Transfers::Collective)},
  };
  // clang-format on
  return all;
}

bool isPreset(llvm::StringRef name) {
  return llvm::any_of(presets(), [&](const Preset &preset) { return preset.name == name; });
}

} // namespace braid
