//===- runtime/loader.cpp - queries the dynamic loader ----------------------------------------===//

#include "runtime/loader.h"

#include <dlfcn.h>

namespace braid {

std::string loaderError() {
  const char *text = dlerror();
  return text ? text : "no reason given";
}

std::string fileOf(const void *function, const std::string &otherwise) {
  Dl_info info = {};
  return dladdr(function, &info) && info.dli_fname ? info.dli_fname : otherwise;
}

} // namespace braid
