//===- api/compile/compiled_program.h - what a CompiledProgram holds --------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "api/program.h"

namespace braid {

struct CompiledProgram::Impl {
  /// compileText() with everything decided.
  static Result<std::shared_ptr<Impl>> make(const std::string &name, const std::string &text,
                                            const CompileOptions &options);

  std::unique_ptr<Source> source;
  Compiled compiled;       ///< points into the source
  Configurations schedule; ///< as it was lowered; `all` has the knobs of the run
  std::vector<TensorSpec> inputs, outputs;
  std::string choice, trials;
};

/// Takes `auto` off a schedule's text; the rest, such as ";chunks=2", is not to be varied. False if
/// there is none.
bool takeAuto(std::string &schedule);
/// All but `auto`.
Result<CompileOptions> toCompileOptions(const LoweringOptions &options);

} // namespace braid
