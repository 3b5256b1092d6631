//===- lowering/names.cpp - readable names for generated values -------------------------------===//

#include "lowering/names.h"

namespace braid {

std::string Names::local(llvm::StringRef wanted) const {
  std::string name = wanted.str();
  for (int suffix = 2; globals_.contains(name); ++suffix)
    name = wanted.str() + "_" + std::to_string(suffix);
  return name;
}

std::string Names::global(llvm::StringRef wanted) {
  std::string name = local(wanted);
  globals_.insert(name);
  return name;
}

} // namespace braid
