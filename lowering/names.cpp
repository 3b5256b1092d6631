//===- lowering/names.cpp - readable names for generated values -------------------------------===//

#include "lowering/names.h"

namespace braid {

/// Returns `wanted` or, if it is already taken, `wanted` with the smallest unused suffix.
template <class IsTaken> static std::string firstFree(llvm::StringRef wanted, IsTaken isTaken) {
  std::string name = wanted.str();
  for (int suffix = 2; isTaken(name); ++suffix)
    name = wanted.str() + "_" + std::to_string(suffix);
  return name;
}

std::string Names::local(llvm::StringRef wanted) {
  std::string name = firstFree(wanted, [this](auto &each) { return globals_.contains(each); });
  locals_.insert(name);
  return name;
}

/// Also avoids names used inside loops, because the value's scope may contain such a loop.
std::string Names::global(llvm::StringRef wanted) {
  std::string name = firstFree(
      wanted, [this](auto &each) { return globals_.contains(each) || locals_.contains(each); });
  globals_.insert(name);
  return name;
}

} // namespace braid
