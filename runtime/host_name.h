//===- runtime/host_name.h - what this host calls itself --------------------------------------===//
#pragma once

#include <string>

#include <unistd.h>

namespace braid {

/// Empty: nobody says.
inline std::string hostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

} // namespace braid
