//===- api/pairs/path_recipe.h - how a program moves blocks over a path -----------------------===//
#pragma once

#include "api/pairs/pair_names.h"
#include "ir/program.h"
#include "runtime/execute/transfer_mode.h"

namespace braid {

struct PathRecipe {
  Path path;
  CopyBy copies;                    ///< Default: nothing to choose
  std::optional<Protocol> protocol; ///< of copies from or to a peer's memory; none: it has no such
};

inline constexpr PathRecipe kPathRecipes[] = {
    {Path::PutEngine, CopyBy::Engine, Protocol::Put},
    {Path::PutKernel, CopyBy::Kernel, Protocol::Put},
    {Path::GetEngine, CopyBy::Engine, Protocol::Get},
    {Path::GetKernel, CopyBy::Kernel, Protocol::Get},
    {Path::Messages, CopyBy::Default, std::nullopt},
    {Path::Host, CopyBy::Default, std::nullopt},
};
static_assert(std::size(kPathRecipes) == kPaths);

inline const PathRecipe &recipeOf(Path path) { return kPathRecipes[static_cast<size_t>(path)]; }

/// Needs memory that a peer's device reaches.
inline bool reachesPeers(Path path) { return recipeOf(path).protocol.has_value(); }

/// The rank that copies; of messages, the one where they arrive.
inline int64_t copyingRank(Path path, int64_t source, int64_t destination) {
  const bool isDestination = path == Path::Messages || recipeOf(path).protocol == Protocol::Get;
  return isDestination ? destination : source;
}

} // namespace braid
