//===- runtime/loader.h - queries the dynamic loader ------------------------------------------===//
#pragma once

#include <string>

#include <dlfcn.h>

namespace braid {

/// Returns the message of this thread's last dlopen or dlsym error, as dlerror does.
inline std::string loaderError() {
  const char *text = dlerror();
  return text ? text : "no reason was given";
}

/// Returns the path of the file that contains `function`, as dladdr does, or `otherwise` if dladdr
/// does not find it.
inline std::string fileOf(const void *function, const std::string &otherwise) {
  Dl_info info = {};
  return dladdr(function, &info) && info.dli_fname ? info.dli_fname : otherwise;
}

} // namespace braid
