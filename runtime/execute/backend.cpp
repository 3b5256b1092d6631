//===- runtime/execute/backend.cpp - backends by name -----------------------------------------===//

#include "runtime/execute/backend.h"

namespace braid {

const Backend *BackendRegistry::find(llvm::StringRef name) const {
  for (const Backend &backend : backends_)
    if (name == backend.name)
      return &backend;
  return nullptr;
}

std::vector<std::string> BackendRegistry::names() const {
  std::vector<std::string> names;
  for (const Backend &backend : backends_)
    names.push_back(backend.name);
  return names;
}

} // namespace braid
