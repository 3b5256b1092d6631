//===- api/compile/compiled_program.h - what a CompiledProgram holds --------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "api/program.h"

namespace braid {

struct CompiledProgram::Impl {
  std::unique_ptr<Source> source;
  Compiled compiled; ///< points into the source
  Configuration run; ///< the knobs of the whole run
  std::vector<TensorSpec> inputs, outputs;
};

/// The mistakes found in a text if there are any, or what `status` says.
Status withDiagnostics(const Source &source, const Status &status);

} // namespace braid
