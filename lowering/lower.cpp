//===- lowering/lower.cpp - runs the passes on a fusion ---------------------------------------===//

#include "lowering/lower.h"

#include "ir/failure.h"
#include "lowering/state.h"

namespace braid {
namespace {

Status checkOptions(const Configuration &config) {
  for (const KnobRow &row : allKnobs())
    if (std::optional<int64_t> value = config.get(row.knob); value && !row.accepts(*value))
      return {StatusCode::BadInput, "expected " + row.name + " to be " + row.accepted() + ", got " +
                                        std::to_string(*value)};
  return Status::ok();
}

/// Returns the status for errors that a pass reported. Only find-moves rejects fusions, before it
/// creates any stages; all other errors are caused by options.
Status refusal(const Pass &pass, const LoweringState &state) {
  const bool isFusions = &pass == &allPasses().front() && state.stages.empty();
  return {isFusions ? StatusCode::Unsupported : StatusCode::BadInput,
          "cannot lower @" + state.fusion.name() + (isFusions ? "" : " with these options")};
}

Status verifyAfter(const Pass &pass, const Program &program, const Module &module,
                   const Diagnostics &diags) {
  Diagnostics found(diags.fileName(), diags.text());
  if (verify(program, module, found))
    return Status::ok();
  return {StatusCode::Internal,
          "pass '" + pass.name.str() + "' produced an invalid program:\n" + found.str()};
}

} // namespace

Result<std::unique_ptr<Program>> lower(const Module &module, const Fusion &fusion,
                                       const Configurations &options, Diagnostics &diags,
                                       const AfterPass &afterPass, bool isReproducible) {
  BRAID_TRY(checkOptions(options.all));
  for (const Configurations::OfStage &stage : options.stages)
    BRAID_TRY(checkOptions(stage.config));
  LoweringState state{fusion, options, diags};
  state.isReproducible = isReproducible;
  for (const Pass &pass : allPasses()) {
    const size_t errorsBefore = diags.errorCount();
    const bool changed = pass.run(state);
    if (diags.errorCount() != errorsBefore)
      return refusal(pass, state);
    BRAID_TRY(verifyAfter(pass, *state.program, module, diags));
    if (afterPass)
      afterPass(pass, *state.program, changed);
  }
  return std::move(state.program);
}

} // namespace braid
