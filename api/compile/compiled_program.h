//===- api/compile/compiled_program.h - the state of a CompiledProgram ------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "api/program.h"

namespace braid {

struct ProgramState {
  /// Compiles the source. The message of a failure contains the located mistakes. If the ranks will
  /// choose the schedule, compiles with any allowed schedule, which finds mistakes in the text.
  static Result<std::shared_ptr<ProgramState>> make(std::unique_ptr<Source> source,
                                                    const CompileOptions &options);
  /// Explains every knob and who chose it, and how many stages hide some of their transfers, with
  /// the reasons if not all are hidden, from the Plans of the first ranks. A program that was read
  /// counts as a whole. Returns lines as `braid run --explain` prints them.
  std::string explain() const;

  std::unique_ptr<Source> source;
  Compiled compiled;       ///< refers to `source`
  Configurations schedule; ///< the schedule of the lowering; `all` has the knobs of the run
  std::vector<TensorSpec> inputs, outputs;
  std::string choice, trials; ///< see CompiledProgram
};

Result<CompileOptions> toCompileOptions(const LoweringOptions &options);

} // namespace braid
