//===- lowering/pipeline.h - the passes, in order, and lists of them --------------------------===//
#pragma once

#include "ir/module.h"
#include "lowering/passes/pass.h"
#include "lowering/schedule/configuration.h"

namespace braid {

/// Every pass, in the order in which they run by default.
llvm::ArrayRef<Pass> allPasses();
/// The knobs that are options of a pass, `{chunks=2}` after its name.
std::vector<Knob> knobsOf(const Pass &pass);
/// The pass of that name, or null.
const Pass *findPass(llvm::StringRef name);
/// " (did you mean 'x'?)" for a name that is no pass, or nothing.
std::string didYouMeanPass(llvm::StringRef name);

/// What lowering does: passes in order, and the options in force.
struct PassList {
  std::vector<const Pass *> passes;
  Configurations options;
  /// Those that have been run on the program already.
  std::vector<const Pass *> earlier = {};
  /// Whatever schedule is chosen, results are to have the same bits: what could not be had so is
  /// refused.
  bool isReproducible = false;
};

/// All passes, each once.
PassList defaultPasses(const Configurations &options);
/// What a `--passes` list asks for. Options written there go before those in `options`. Unknown
/// names, options and values, and passes in an order that cannot work, are reported with their
/// place in the list; nothing is returned then. `earlier` have been run already.
std::optional<PassList> resolvePasses(llvm::ArrayRef<PassSpec> specs, const Configurations &options,
                                      Diagnostics &diags, std::vector<const Pass *> earlier = {});
/// The passes that have been run on a program that some were, in order. Reports words of its header
/// that are no pass; nothing is returned then.
std::optional<std::vector<const Pass *>> passesRunOn(const Program &program, Diagnostics &diags);

} // namespace braid
