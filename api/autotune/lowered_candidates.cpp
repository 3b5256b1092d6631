//===- api/autotune/lowered_candidates.cpp - candidates with their Plans, each once -----------===//

#include "api/autotune/lowered_candidates.h"

#include "api/compile/plans.h"
#include "ir/failure.h"
#include "lowering/stages/configure_stages.h"

#include <fmt/format.h>

namespace braid {
namespace {

/// What rank 0 does, in numbers: equal for candidates between which nothing decides.
std::string signatureOf(const Plan &plan) {
  std::string text;
  for (const Command &c : plan.commands)
    text +=
        fmt::format("{} {} {} {} {} {} {} {} {} {} {}\n", static_cast<int>(c.kind), c.stream,
                    c.endpoint, c.flag, c.event, c.dst.buffer, c.dst.offset, c.dst.bytes,
                    c.src.buffer, c.src.offset, c.matmul == kNone ? 0 : plan.matmuls[c.matmul].m);
  return text;
}

} // namespace

Result<Compiled> CandidateLowering::compile(Source &source, CompileOptions options) const {
  options.ranks = ranks_;
  Result<Compiled> compiled = braid::compile(source, options);
  if (compiled && !compiled->isLowered)
    return badInput("--schedule steers lowering, but @{} in '{}' is a program already",
                    compiled->program->name(), name_);
  return compiled ? compiled : withLocated(compiled.status(), source);
}

Result<std::vector<Plan>> CandidateLowering::makePlans(const CompileOptions &options) const {
  std::unique_ptr<Source> source = parseSource(name_, text_);
  Compiled compiled = BRAID_TRY(compile(*source, options));
  Result<std::vector<Plan>> plans = braid::makePlans(compiled);
  return plans ? std::move(plans) : withLocated(plans.status(), *source);
}

Status CandidateLowering::findFusion() {
  std::unique_ptr<Source> source = parseSource(name_, text_);
  CompileOptions options = given_;
  options.schedule.all = completed(given_.schedule.all);
  Compiled compiled = BRAID_TRY(compile(*source, options));
  fusion_ = compiled.fusion->name();
  fusionText_ = str(*compiled.fusion);
  stages_ = stagesOf(*compiled.fusion, source->diags);
  return Status::ok();
}

/// Null if it cannot be lowered. Launch mode and transfer mode make no difference.
SharedPlans CandidateLowering::plansOf(const Configurations &schedule) {
  Configurations key = schedule;
  for (const KnobRow &row : allKnobs())
    if (row.isOfRun() && row.knob != Knob::DataPlane)
      key.all.set(row.knob, std::nullopt);
  auto [entry, isNew] = plans_.try_emplace(key.str());
  if (!isNew)
    return entry->second;
  Result<std::vector<Plan>> plans = makePlans(applyTo(given_, schedule));
  if (plans)
    entry->second = std::make_shared<const std::vector<Plan>>(std::move(*plans));
  else if (refusal_.isOk())
    refusal_ = plans.status();
  return entry->second;
}

void CandidateLowering::lower(llvm::ArrayRef<Candidate> candidates, const StageChoices &choices,
                              size_t stage, std::vector<LoweredCandidate> &lowered) {
  for (const Candidate &candidate : candidates) {
    const Configurations schedule = choices.with(stage, candidate);
    SharedPlans plans = plansOf(schedule);
    if (!plans)
      continue;
    const std::string how = str(transferModeOf(candidate)) + name(launchModeOf(candidate)).str();
    if (seen_.insert(signatureOf(plans->front()) + how).second)
      lowered.push_back({candidate, schedule, plans});
  }
}

} // namespace braid
