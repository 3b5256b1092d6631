//===- api/program.cpp - compiles a text for all ranks ----------------------------------------===//

#include "api/program.h"

#include "api/compile/compiled_program.h"
#include "api/compile/plans.h"
#include "ir/failure.h"
#include "lowering/stages/configure_stages.h"

namespace braid {
namespace {

std::vector<TensorSpec> specsOf(llvm::ArrayRef<std::unique_ptr<Value>> values) {
  std::vector<TensorSpec> specs;
  for (const std::unique_ptr<Value> &value : values) {
    TensorSpec spec{value->name, value->type.dtype, {}};
    for (const Scalar *extent : value->type.shape)
      spec.shape.push_back(extent->value());
    specs.push_back(std::move(spec));
  }
  return specs;
}

} // namespace

Result<CompileOptions> toCompileOptions(const LoweringOptions &options) {
  CompileOptions result{.entry = options.entry,
                        .ranks = options.ranks,
                        .parameters = options.parameters,
                        .reproducible = options.reproducible};
  BRAID_TRY(result.readSchedule(options.schedule));
  return result;
}

Result<std::shared_ptr<ProgramState>> ProgramState::make(std::unique_ptr<Source> source,
                                                         const CompileOptions &given) {
  CompileOptions options = given;
  if (Configuration &all = options.schedule.all; options.isAuto)
    all = fieldsFor(all).over(all);
  auto state = std::make_shared<ProgramState>();
  state->source = std::move(source);
  state->compiled = BRAID_TRY(compile(*state->source, options));
  state->schedule = options.schedule;
  state->inputs = specsOf(state->compiled.program->params());
  state->outputs = specsOf(state->compiled.program->results());
  return state;
}

Result<CompiledProgram> compileText(const std::string &name, const std::string &text,
                                    const LoweringOptions &options) {
  const CompileOptions lowering = BRAID_TRY(toCompileOptions(options));
  if (lowering.isAuto)
    return badInput("schedule auto requires measurements on the ranks of a job: call "
                    "Job::compileText() instead");
  return CompiledProgram(BRAID_TRY(ProgramState::make(parseSource(name, text), lowering)));
}

Result<CompiledProgram> compileFile(const std::string &path, const LoweringOptions &options) {
  const std::unique_ptr<Source> source = BRAID_TRY(readSource(path));
  return compileText(source->diags.fileName(), source->diags.text(), options);
}

int64_t CompiledProgram::ranks() const { return state_->compiled.program->ranks(); }
const std::string &CompiledProgram::name() const { return state_->compiled.program->name(); }
std::span<const TensorSpec> CompiledProgram::inputs() const { return state_->inputs; }
std::span<const TensorSpec> CompiledProgram::outputs() const { return state_->outputs; }
const std::string &CompiledProgram::choice() const { return state_->choice; }
const std::string &CompiledProgram::trials() const { return state_->trials; }

std::string CompiledProgram::schedule() const {
  if (!state_->compiled.isLowered)
    return "";
  const std::string text = state_->schedule.str();
  return text.empty() ? state_->schedule.all.preset().str() : text;
}

std::string CompiledProgram::str() const {
  const Compiled &compiled = state_->compiled;
  return (compiled.fusion ? braid::str(*compiled.fusion) + "\n" : "") +
         braid::str(*compiled.program);
}

std::string CompiledProgram::explain() const { return state_->explain(); }

Result<std::string> CompiledProgram::plan(int64_t rank) const {
  if (rank < 0 || rank >= ranks())
    return badInput("expected a rank from 0 to {}, got {}", ranks() - 1, rank);
  return braid::str(BRAID_TRY(makePlan(state_->compiled, rank, state_->source->diags)));
}

Status CompiledProgram::check(const CheckLimits &limits, std::string *report) const {
  const Compiled &compiled = state_->compiled;
  const CheckReport checked = BRAID_TRY(checkProgram(
      compiled,
      {.queues = limits.queues, .runs = limits.runs, .ordered = compiled.isReproducible}));
  const std::string text = verdictOn(compiled, checked);
  if (!checked.isSafe())
    return {StatusCode::Rejected, text};
  if (report)
    *report = text;
  return Status::ok();
}

} // namespace braid
