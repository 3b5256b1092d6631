//===- lowering/lower.cpp - runs a list of passes on a fusion ---------------------------------===//

#include "lowering/lower.h"

#include "lowering/labels.h"

namespace braid {
namespace {

Status checkOptions(const Configuration &config) {
  for (const KnobRow &row : allKnobs())
    if (std::optional<int64_t> value = config.get(row.knob); value && !row.accepts(*value))
      return {StatusCode::BadInput, "expected " + row.name + " to be " + row.accepted() + ", got " +
                                        std::to_string(*value)};
  return Status::ok();
}

/// What a pass reported. Only find-moves judges the fusion, before there are stages; what comes
/// later judges the options.
Status refusal(const Pass &pass, const LoweringState &state) {
  const bool isFusions = &pass == &allPasses().front() && state.stages.empty();
  return {isFusions ? StatusCode::Unsupported : StatusCode::BadInput,
          "cannot lower @" + state.fusion.name() + (isFusions ? "" : " with these options")};
}

/// Nodes are where they come from in the text that was read, be it a fusion or a program.
Status verifyAfter(const Pass &pass, const Program &program, const Module &module,
                   const Diagnostics &diags) {
  Diagnostics found(diags.fileName(), diags.text());
  if (verify(program, module, found))
    return Status::ok();
  return {StatusCode::Internal,
          "pass '" + pass.name.str() + "' made an invalid program:\n" + found.str()};
}

/// One pass on what the passes before have left in `program`, and nowhere else.
Result<bool> runPass(const Pass &pass, const Fusion &fusion, const PassList &passes,
                     std::unique_ptr<Program> &program, Diagnostics &diags) {
  const size_t errorsBefore = diags.errorCount();
  LoweringState state{fusion, passes.options, diags, std::move(program), passes.isReproducible};
  if (state.program && !readLabels(state))
    return Status(StatusCode::BadInput, "cannot go on lowering @" + fusion.name());
  const bool changed = pass.run(state);
  if (diags.errorCount() != errorsBefore)
    return refusal(pass, state);
  if (&pass == &allPasses().back())
    dropLabels(*state.program); // nobody goes on from here
  else
    writeLabels(pass, state);
  program = std::move(state.program);
  return changed;
}

} // namespace

Result<std::unique_ptr<Program>> lower(const Module &module, const Fusion &fusion,
                                       const PassList &passes, Diagnostics &diags,
                                       const AfterPass &afterPass,
                                       std::unique_ptr<Program> program) {
  if (Status status = checkOptions(passes.options.all); !status.isOk())
    return status;
  for (const Configurations::OfStage &stage : passes.options.stages)
    if (Status status = checkOptions(stage.config); !status.isOk())
      return status;
  const bool isBegun = program != nullptr; // by a text, whose labels may be anybody's
  if (isBegun)
    if (Status status = overlay(*program, passes.options); !status.isOk()) {
      diags.error(program->location()) << status.message();
      return Status(status.code(), "cannot go on lowering @" + fusion.name());
    }
  for (const Pass *pass : passes.passes) {
    Result<bool> changed = runPass(*pass, fusion, passes, program, diags);
    if (!changed)
      return changed.status();
    if (Status status = verifyAfter(*pass, *program, module, diags); !status.isOk())
      return isBegun ? Status(StatusCode::BadInput, "the labels of @" + program->name() +
                                                        " do not fit: " + status.message())
                     : status;
    if (afterPass)
      afterPass(*pass, *program, *changed);
  }
  return program;
}

Result<std::unique_ptr<Program>> lower(const Module &module, const Fusion &fusion,
                                       const Configurations &options, Diagnostics &diags,
                                       const AfterPass &afterPass) {
  return lower(module, fusion, defaultPasses(options), diags, afterPass);
}

} // namespace braid
