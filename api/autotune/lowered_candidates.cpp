//===- api/autotune/lowered_candidates.cpp - candidates with their Plans, each once -----------===//

#include "api/autotune/lowered_candidates.h"

#include "api/compile/plans.h"
#include "ir/failure.h"
#include "lowering/stages/configure_stages.h"

#include "llvm/Support/xxhash.h"

#include <fmt/format.h>

namespace braid {
namespace {

/// A text of numbers.
class Signature {
public:
  template <class... Number> void add(Number... number) {
    ((text_ += fmt::format("{} ", static_cast<int64_t>(number))), ...);
  }
  void add(const Range &range) { add(range.buffer, range.offset, range.bytes); }
  void add(const Endpoint &end) { add(end.direction, end.protocol, end.peer), add(end.range); }
  void add(const PlanMatmul &gemm) {
    add(gemm.m, gemm.n, gemm.k);
    for (const Range &range : {gemm.a, gemm.b, gemm.c, gemm.bias, gemm.addend})
      add(range);
  }
  void add(const PlanSum &sum) { add(sum.count, sum.stride), add(sum.dst), add(sum.parts); }
  void add(const PlanPointwise &pointwise) {
    add(pointwise.dst);
    for (const PlanPointwise::Operand &operand : pointwise.operands())
      add(operand.range);
  }
  void add(const PlanGroup &group) {
    for (const PlanMessage &message : group)
      add(message.direction, message.peer), add(message.range);
  }
  void add(const PlanCollective &collective) {
    add(collective.kind, collective.root, collective.members());
    add(collective.dst), add(collective.src);
  }
  template <class T> void addOf(const std::vector<T> &all, uint32_t index) {
    if (index != kNone)
      add(all[index]);
  }
  const std::string &text() const { return text_; }

private:
  std::string text_;
};

} // namespace

uint64_t signatureOf(const Plan &plan, TransferMode transferMode, LaunchMode launchMode) {
  Signature signature;
  for (const Command &c : plan.commands) {
    signature.add(c.kind, c.stream, c.flag, c.event);
    signature.add(c.dst), signature.add(c.src);
    signature.addOf(plan.endpoints, c.endpoint);
    signature.addOf(plan.matmuls, c.matmul);
    signature.addOf(plan.sums, c.sum);
    signature.addOf(plan.pointwise, c.pointwise);
    signature.addOf(plan.groups, c.group);
    signature.addOf(plan.collectives, c.collective);
  }
  return llvm::xxHash64(signature.text() + str(transferMode) + name(launchMode).str());
}

Result<Compiled> CandidateLowering::compile(Source &source, CompileOptions options) const {
  options.ranks = ranks_;
  Result<Compiled> compiled = braid::compile(source, options);
  if (compiled && !compiled->isLowered)
    return badInput("schedule steers lowering, but @{} in '{}' is a program already",
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
    const uint64_t signature =
        signatureOf(plans->front(), transferModeOf(candidate), launchModeOf(candidate));
    if (seen_.insert(signature).second)
      lowered.push_back({{candidate, schedule}, plans});
  }
}

} // namespace braid
