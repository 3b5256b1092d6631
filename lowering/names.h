//===- lowering/names.h - readable names for generated values ---------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

#include <string>

namespace braid {

/// Generates names that do not collide with visible names, by appending `_2`, `_3`, ... if needed.
/// Top-level names are unique; a name inside a loop may be reused in another loop, as the text
/// language allows.
class Names {
public:
  /// Returns a unique top-level name.
  std::string global(llvm::StringRef wanted);
  /// Returns a name for a value inside a loop, or for a loop index, that differs from all top-level
  /// names so far. Other loops may reuse the name.
  std::string local(llvm::StringRef wanted);

private:
  llvm::StringSet<> globals_, locals_;
};

} // namespace braid
