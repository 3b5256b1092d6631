//===- ir/module.cpp - looks up fusions and programs by name ----------------------------------===//

#include "ir/module.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {

template <class T>
static T *find(const std::vector<std::unique_ptr<T>> &list, llvm::StringRef name) {
  auto found = llvm::find_if(list, [&](const auto &item) { return item->name() == name; });
  return found == list.end() ? nullptr : found->get();
}

Fusion *Module::findFusion(llvm::StringRef name) const { return find(fusions, name); }

Program *Module::findProgram(llvm::StringRef name) const { return find(programs, name); }

} // namespace braid
