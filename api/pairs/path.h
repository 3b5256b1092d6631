//===- api/pairs/path.h - what each path is called, and how it is made ------------------------===//
#pragma once

#include "api/pairs/pair_report.h"
#include "ir/program.h"
#include "runtime/execute/transfer_mode.h"

#include "llvm/ADT/ArrayRef.h"

namespace braid {

/// "put-engine", "put-kernel", "get-engine", "get-kernel", "messages", "host".
llvm::StringRef name(Path path);
std::optional<Path> pathFromName(llvm::StringRef name);

/// How a program moves its blocks over a path.
struct PathRecipe {
  Path path;
  const char *name;
  CopyBy copies;                    ///< Default: nothing to choose
  std::optional<Protocol> protocol; ///< of copies from or to a peer's memory; none: it has no such
};
/// By Path.
llvm::ArrayRef<PathRecipe> allPaths();
const PathRecipe &recipeOf(Path path);

/// Needs memory that a peer's device reaches.
inline bool reachesPeers(Path path) { return recipeOf(path).protocol.has_value(); }

} // namespace braid
