//===- lowering/stages/configure_stages.cpp - what was chosen for each stage ------------------===//

#include "lowering/stages/configure_stages.h"

#include "lowering/stages/reduced_rows.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace braid {
namespace {

/// The first knob with this value takes only these values of the other, as bits.
struct Rule {
  Knob knob;
  int64_t value;
  Knob other;
  uint32_t allowed;
};

template <class... E> constexpr uint32_t only(E... values) { return ((1u << int(values)) | ...); }
template <class E> constexpr Rule rule(Knob knob, E value, Knob other, uint32_t allowed) {
  return {knob, static_cast<int64_t>(value), other, allowed};
}

using namespace schedule;

constexpr Rule kRules[] = {
    // A ring hands on what came in the step before, on the same stream.
    rule(Knob::Order, Order::Ring, Knob::Posting, only(Posting::Each)),
    rule(Knob::Order, Order::Ring, Knob::Granularity, only(Granularity::Chunk)),
    rule(Knob::Order, Order::Ring, Knob::Placement, only(Placement::Ring)),
    rule(Knob::Placement, Placement::Ring, Knob::Order, only(Order::Ring)),
    // Growing groups are of neighbours, which xor brings, and of several streams' blocks.
    rule(Knob::Order, Order::Xor, Knob::Granularity, only(Granularity::Geometric)),
    rule(Knob::Granularity, Granularity::Geometric, Knob::Order, only(Order::Xor)),
    rule(Knob::Granularity, Granularity::Geometric, Knob::Posting, only(Posting::Each)),
    rule(Knob::Granularity, Granularity::Geometric, Knob::Placement, only(Placement::Shared)),
    // A GEMM of everything has nothing to run beside.
    rule(Knob::Granularity, Granularity::Whole, Knob::Placement,
         only(Placement::Each, Placement::Caller)),
    rule(Knob::Posting, Posting::All, Knob::Placement, only(Placement::Shared, Placement::Caller)),
    rule(Knob::Placement, Placement::Caller, Knob::Posting, only(Posting::All)),
    rule(Knob::Placement, Placement::Caller, Knob::Granularity, only(Granularity::Whole)),
};

/// What a reduction takes at all, as bits.
struct ReductionRule {
  Knob knob;
  uint32_t allowed;
};

constexpr ReductionRule kReductionRules[] = {
    {Knob::Order, only(Order::Shift, Order::Ring)},
    {Knob::Granularity, only(Granularity::Chunk, Granularity::Whole)},
    {Knob::Placement, only(Placement::Each, Placement::Shared, Placement::Ring, Placement::Caller)},
};

/// Its chunks are sent as they are made, so they cannot be posted together.
constexpr Rule kRulesOfReductions[] = {
    rule(Knob::Posting, Posting::All, Knob::Granularity, only(Granularity::Whole)),
};

/// "gather %A" or "reduce to %C"
std::string actionOf(const Stage &stage) {
  return stage.isGather() ? "gather %" + stage.name().str() : "reduce to %" + stage.result().name;
}

/// "shift or xor"
std::string wordsOf(const KnobRow &knob, uint32_t allowed) {
  std::string text;
  for (size_t word = 0; word < knob.words.size(); ++word)
    if (allowed >> word & 1)
      text += (text.empty() ? "" : " or ") + knob.words[word];
  return text;
}

bool checkReduction(const Stage &stage, Diagnostics &diags) {
  for (const ReductionRule &rule : kReductionRules) {
    const KnobRow &knob = rowOf(rule.knob);
    const int64_t value = stage.config.valueOf(rule.knob);
    if ((rule.allowed >> value & 1) == 0)
      return diags.error(stage.location())
             << "cannot " << actionOf(stage) << ": expected " << knob.name << "="
             << wordsOf(knob, rule.allowed) << ", got " << knob.name << "=" << knob.str(value);
  }
  if (!stage.keepsOwnRows() && stage.config.order() == Order::Ring)
    return diags.error(stage.location())
           << "cannot " << actionOf(stage)
           << ": around a ring every rank gets the sum of its own rows alone; only order=shift "
           << "would be accepted";
  if (stage.isTwoShot() && stage.rows == 0)
    return diags.error(stage.location())
           << "cannot " << actionOf(stage) << ": reduction=two-shot shares rows, and it has none; "
           << "only one-shot would be accepted";
  return true;
}

bool isKept(const Rule &rule, const Configuration &config) {
  return config.valueOf(rule.knob) != rule.value ||
         (rule.allowed >> config.valueOf(rule.other) & 1) != 0;
}

/// The first rule that the stage breaks, or null.
const Rule *brokenRule(const Stage &stage) {
  auto isBroken = [&](const Rule &rule) { return !isKept(rule, stage.config); };
  const auto *broken = llvm::find_if(kRules, isBroken);
  if (broken != std::end(kRules))
    return broken;
  const auto *ofReductions = llvm::find_if(kRulesOfReductions, isBroken);
  const bool isNone = stage.isGather() || ofReductions == std::end(kRulesOfReductions);
  return isNone ? nullptr : ofReductions;
}

} // namespace

bool settleFields(const Fusion &fusion, Stage &stage, Diagnostics &diags) {
  if (stage.isReduction())
    countReducedRows(fusion, stage);
  if (stage.isReduction() && !checkReduction(stage, diags))
    return false;
  const Rule *broken = brokenRule(stage);
  if (!broken)
    return true;
  const KnobRow &knob = rowOf(broken->knob), &other = rowOf(broken->other);
  return diags.error(stage.location())
         << "cannot " << actionOf(stage) << ": " << knob.name << "=" << knob.str(broken->value)
         << " takes " << other.name << "=" << wordsOf(other, broken->allowed) << ", got "
         << other.str(stage.config.valueOf(broken->other));
}

namespace {

std::vector<std::string> resultsOf(llvm::ArrayRef<Stage> stages) {
  std::vector<std::string> names;
  for (const Stage &stage : stages)
    llvm::append_range(names, stage.tensors());
  return names;
}

bool configure(LoweringState &state, const Configurations::OfStage &chosen) {
  auto stage = llvm::find_if(state.stages, [&](const Stage &s) {
    return llvm::is_contained(resultsOf(s), chosen.tensor);
  });
  const std::vector<std::string> names = resultsOf(state.stages);
  if (stage == state.stages.end())
    return state.diags.error(state.fusion.location())
           << "the schedule names %" << chosen.tensor << ", but no stage makes it; stages make %"
           << llvm::join(names, ", %") << didYouMean(chosen.tensor, names);
  if (stage->isNamed)
    return state.diags.error(stage->location())
           << "the schedule names the stage of %" << chosen.tensor << " twice";
  stage->config = chosen.config.over(state.options.all);
  stage->isNamed = true;
  return true;
}

/// Only an all-reduce has shots. What is asked of all stages may be meant for another one.
bool checkShots(const LoweringState &state, const Stage &stage) {
  auto hasTwo = [](const Stage &each) { return each.isTwoShot(); };
  const bool isMeant = stage.isNamed || llvm::none_of(state.stages, hasTwo);
  if (stage.config.reduction() == Reduction::OneShot || hasTwo(stage) || !isMeant)
    return true;
  return state.diags.error(stage.location())
         << "cannot " << actionOf(stage)
         << ": reduction=two-shot takes an all-reduce; only one-shot would be accepted";
}

} // namespace

bool configureStages(LoweringState &state) {
  bool isFine = true;
  for (Stage &stage : state.stages)
    stage.config = state.options.all;
  for (const Configurations::OfStage &chosen : state.options.stages)
    isFine &= configure(state, chosen);
  for (Stage &stage : state.stages)
    if (isFine && stage.moves())
      isFine = checkShots(state, stage) && settleFields(state.fusion, stage, state.diags);
  return isFine;
}

std::string scheduleName(const LoweringState &state) {
  std::string name = "local";
  for (const Stage &stage : state.stages) {
    if (!stage.moves())
      continue;
    const std::string mine = stage.config.preset().str();
    name = name == "local" || name == mine ? mine : "mixed";
  }
  return name;
}

} // namespace braid
