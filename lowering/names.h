//===- lowering/names.h - readable names for generated values ---------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

#include <string>

namespace braid {

/// Gives out names that collide with none that is visible. Values at the top level have names of
/// their own; a name inside a loop may come back in the next loop, as the text language allows.
/// A name that is taken gets a suffix `_2`, `_3`, ...
class Names {
public:
  /// A name for the top level; nobody gets it again.
  std::string global(llvm::StringRef wanted);
  /// A name for the inside of a loop, or for its index: not that of any top-level value so far.
  /// Other loops may have the same.
  std::string local(llvm::StringRef wanted);
  /// Names that are there already.
  void noteGlobal(llvm::StringRef name) { globals_.insert(name); }
  void noteLocal(llvm::StringRef name) { locals_.insert(name); }

private:
  llvm::StringSet<> globals_, locals_;
};

} // namespace braid
