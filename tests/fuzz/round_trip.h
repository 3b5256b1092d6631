//===- tests/fuzz/round_trip.h - properties that hold for any program text --------------------===//
#pragma once

#include "ir/module.h"

#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <string>

namespace braid::fuzz {

inline std::string printed(const Module &module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  print(module, os);
  return os.str();
}

/// Prints `what` and aborts unless `holds` is true. libFuzzer then saves the input.
inline void require(bool holds, const char *what, const std::string &text) {
  if (holds)
    return;
  llvm::errs() << what << ":\n" << text << "\n";
  std::abort();
}

/// Evaluates every scalar with arbitrary values for its leaves. The evaluation must terminate.
inline void evaluateAll(Module &module) {
  for (const auto &fusion : module.fusions)
    for (const auto &node : fusion->nodes())
      if (const FusionTensor *result = resultOf(*node))
        for (const Axis &axis : result->type.axes)
          (void)fusion->valueOf(axis.extent);
  for (const auto &program : module.programs) {
    std::vector<int64_t> loops(static_cast<size_t>(program->scalars().loopIndexCount()), 3);
    walk(program->body(), [&](Op &op) {
      forEachScalar(
          op, [&](const Scalar *&scalar) { (void)evaluate(scalar, {.rank = 1, .loops = loops}); });
    });
  }
}

/// Parses and verifies any text. If it parses, the printed text must parse and print unchanged.
inline void checkText(std::string text) {
  Diagnostics diags("fuzz", std::move(text));
  Module module = parse(diags);
  bool parses = !diags.hasErrors();
  bool isFine = verify(module, diags);
  require(parses || !diags.str().empty(), "an error without a message", diags.text());
  require(!isFine || !parses || !diags.hasErrors(), "an error without a failure", diags.text());
  if (!parses)
    return;
  evaluateAll(module);
  Diagnostics again("printed", printed(module));
  Module second = parse(again);
  require(!again.hasErrors(), "what was printed does not parse", again.text() + again.str());
  require(printed(second) == again.text(), "prints differently the second time", again.text());
  Diagnostics verdict;
  require(verify(second, verdict) == isFine, "verifies differently the second time", again.text());
}

} // namespace braid::fuzz
