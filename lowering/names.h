//===- lowering/names.h - readable names for generated values ---------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

#include <string>

namespace braid {

/// Generates names that do not collide with visible ones. Names at the top level are unique; a name
/// inside a loop may be used again in the next loop, as the text language allows. Collisions get a
/// suffix `_2`, `_3`, ...
class Names {
public:
  /// Returns a unique name for the top level.
  std::string global(llvm::StringRef wanted);
  /// Returns a name for a value inside a loop, or for its index, that differs from all top-level
  /// names so far. Other loops may use the same name.
  std::string local(llvm::StringRef wanted);
  /// Reserves existing names.
  void noteGlobal(llvm::StringRef name) { globals_.insert(name); }
  void noteLocal(llvm::StringRef name) { locals_.insert(name); }

private:
  llvm::StringSet<> globals_, locals_;
};

} // namespace braid
