//===- ir/verify/verify_interface.cpp - a program and the fusion that it implements -----------===//

#include "ir/verify/verify.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace braid {
namespace {

/// Returns the type of a fusion tensor's shard on one rank.
std::string localType(const Fusion &fusion, const FusionTensor &tensor) {
  Shape shape = fusion.localShape(tensor.type);
  auto texts = llvm::map_range(shape, [](int64_t extent) { return std::to_string(extent); });
  return name(tensor.type.dtype).str() + "[" + llvm::join(texts, ", ") + "]";
}

/// `what` is "parameter" or "result"; `theirs` is "input" or "output".
void verifyList(llvm::StringRef what, llvm::StringRef theirs, const Program &program,
                llvm::ArrayRef<std::unique_ptr<Value>> values, const Fusion &fusion,
                llvm::ArrayRef<const FusionTensor *> tensors, Diagnostics &diags) {
  if (values.size() != tensors.size()) {
    diags.error(program.location()).note(fusion.location(), "the fusion is defined here")
        << "expected program @" << program.name() << " to have as many " << what << "s as @"
        << fusion.name() << " has " << theirs << "s, got " << values.size() << " and "
        << tensors.size();
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    std::string expected = localType(fusion, *tensors[i]);
    if (values[i]->type.str() == expected)
      continue;
    diags.error(values[i]->location)
            .note(tensors[i]->location, "the fusion's tensor is defined here")
        << what << " " << ref(values[i].get()) << " is " << values[i]->type.str() << ", expected "
        << expected << ", the local type of " << theirs << " %" << tensors[i]->name << " of @"
        << fusion.name();
  }
}

std::vector<std::string> fusionNames(const Module &module) {
  std::vector<std::string> names;
  for (const auto &fusion : module.fusions)
    names.push_back(fusion->name());
  return names;
}

} // namespace

void verifyInterface(const Program &program, const Module &module, Diagnostics &diags) {
  if (program.implements().empty())
    return;
  const Fusion *fusion = module.findFusion(program.implements());
  if (!fusion) {
    diags.error(program.location()) << "unknown fusion '@" << program.implements() << "'"
                                    << didYouMean(program.implements(), fusionNames(module), "@");
    return;
  }
  Diagnostics ofFusion;
  if (!verify(*fusion, ofFusion)) {
    diags.error(program.location()).note(fusion->location(), "the fusion is defined here")
        << "program @" << program.name() << " implements @" << fusion->name()
        << ", which has errors";
    return;
  }
  if (program.ranks() != fusion->ranks())
    diags.error(program.location())
            .note(fusion->meshLocation(), "the fusion's mesh is specified here")
        << "program @" << program.name() << " has a mesh of " << program.ranks()
        << " ranks, but the mesh of fusion @" << fusion->name() << " has " << fusion->ranks();
  else if (program.ranksPerHost() != fusion->ranksPerHost())
    diags.error(program.location())
            .note(fusion->meshLocation(), "the fusion's mesh is specified here")
        << "program @" << program.name() << " has " << program.ranksPerHost()
        << " ranks per host, but fusion @" << fusion->name() << " has " << fusion->ranksPerHost();
  verifyList("parameter", "input", program, program.params(), *fusion, fusion->inputs(), diags);
  verifyList("result", "output", program, program.results(), *fusion, fusion->outputs(), diags);
}

} // namespace braid
