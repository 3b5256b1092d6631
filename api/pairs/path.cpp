//===- api/pairs/path.cpp - what each path is called, and how it is made ----------------------===//

#include "api/pairs/path.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

constexpr PathRecipe kRecipes[] = {
    {Path::PutEngine, "put-engine", CopyBy::Engine, Protocol::Put},
    {Path::PutKernel, "put-kernel", CopyBy::Kernel, Protocol::Put},
    {Path::GetEngine, "get-engine", CopyBy::Engine, Protocol::Get},
    {Path::GetKernel, "get-kernel", CopyBy::Kernel, Protocol::Get},
    {Path::Messages, "messages", CopyBy::Default, std::nullopt},
    {Path::Host, "host", CopyBy::Default, std::nullopt},
};
static_assert(std::size(kRecipes) == kPaths);

} // namespace

llvm::ArrayRef<PathRecipe> allPaths() { return kRecipes; }

const PathRecipe &recipeOf(Path path) { return kRecipes[static_cast<size_t>(path)]; }

llvm::StringRef name(Path path) { return recipeOf(path).name; }

std::optional<Path> pathFromName(llvm::StringRef name) {
  const auto *found =
      llvm::find_if(kRecipes, [&](const PathRecipe &recipe) { return name == recipe.name; });
  return found == std::end(kRecipes) ? std::nullopt : std::optional(found->path);
}

} // namespace braid
