//===- api/compile/compiled_program.h - what a CompiledProgram holds --------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "api/program.h"

namespace braid {

struct ProgramState {
  /// A failure has the located mistakes in its message. If the ranks are to choose the schedule,
  /// compiles with any that the options allow, which finds the mistakes in the text.
  static Result<std::shared_ptr<ProgramState>> make(std::unique_ptr<Source> source,
                                                    const CompileOptions &options);
  /// Every knob, with who chose it. Then how many stages hide some of what they move, as the Plans
  /// of the first ranks tell, with the reason where one does not hide all. A program that was read
  /// was not lowered, and has transfers, not stages. Lines, as `braid run --explain` prints them.
  std::string explain() const;

  std::unique_ptr<Source> source;
  Compiled compiled;       ///< points into the source
  Configurations schedule; ///< as it was lowered; `all` has the knobs of the run
  std::vector<TensorSpec> inputs, outputs;
  std::string choice, trials; ///< see CompiledProgram
};

Result<CompileOptions> toCompileOptions(const LoweringOptions &options);

} // namespace braid
