//===- runtime/loader.h - queries the dynamic loader ------------------------------------------===//
#pragma once

#include <string>

#include <dlfcn.h>

namespace braid {

/// Returns the error of the last dlopen or dlsym of this thread, in one line. Equivalent to:
/// dlerror.
inline std::string loaderError() {
  const char *text = dlerror();
  return text ? text : "no reason given";
}

/// Returns the file from which a function was loaded, or `otherwise` if the loader does not know.
/// Equivalent to: dladdr.
inline std::string fileOf(const void *function, const std::string &otherwise) {
  Dl_info info = {};
  return dladdr(function, &info) && info.dli_fname ? info.dli_fname : otherwise;
}

} // namespace braid
