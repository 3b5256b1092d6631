//===- runtime/host_name.h - the name of this host --------------------------------------------===//
#pragma once

#include <string>

#include <unistd.h>

namespace braid {

/// Returns the name of this host, or an empty string if it is unknown.
inline std::string hostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

} // namespace braid
