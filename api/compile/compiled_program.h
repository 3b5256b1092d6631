//===- api/compile/compiled_program.h - the state of a CompiledProgram ------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "api/program.h"

namespace braid {

struct ProgramState {
  /// Compiles the source. On failure, the message lists the errors with their locations. If the
  /// ranks will choose the schedule later, compiles with any allowed schedule to detect errors.
  static Result<std::shared_ptr<ProgramState>> make(std::unique_ptr<Source> source,
                                                    const CompileOptions &options);
  /// Returns the lines that `braid run --explain` prints: the value and origin of every knob, how
  /// many stages overlap some of their transfers, and why other transfers are not overlapped. Uses
  /// the Plans of the first ranks. A program that was not lowered counts as one stage.
  std::string explain() const;

  std::unique_ptr<Source> source;
  Compiled compiled;       ///< refers to `source`
  Configurations schedule; ///< the schedule used for lowering; `all` also has the run's knobs
  std::vector<TensorSpec> inputs, outputs;
  std::string choice, trials; ///< see CompiledProgram
};

Result<CompileOptions> toCompileOptions(const LoweringOptions &options);

} // namespace braid
