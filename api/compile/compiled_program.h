//===- api/compile/compiled_program.h - the state of a CompiledProgram ------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "api/program.h"

namespace braid {

struct ProgramState {
  /// Compiles the source. On failure, the message lists the errors with their locations. If the
  /// ranks are to choose the schedule later, compiles with any allowed schedule to detect errors.
  static Result<std::shared_ptr<ProgramState>> make(std::unique_ptr<Source> source,
                                                    const CompileOptions &options);
  /// Returns the lines that `braid run --explain` prints: the value and origin of every knob, the
  /// number of stages that overlap some of their transfers, and why other transfers are not
  /// overlapped. A program that was not lowered counts as one stage.
  std::string explain() const;

  std::unique_ptr<Source> source;
  Compiled compiled;       ///< refers to `source`
  Configurations schedule; ///< the schedule used for lowering; `all` includes the run knobs
  std::vector<TensorSpec> inputs, outputs;
  std::string choice, trials; ///< see CompiledProgram
};

Result<CompileOptions> toCompileOptions(const LoweringOptions &options);

/// Formats one explanation line, including the newline: the subject, its value, and the reason.
std::string explainLine(llvm::StringRef what, const std::string &value, const std::string &why);

/// Adds a warning to the source's diags for each stage of a lowered program that overlaps none of
/// its transfers, unless the requested schedule `given` rules out overlap for the stage.
void warnOfNoOverlap(const Compiled &compiled, const Configurations &given);

} // namespace braid
