//===- backends/nccl/nccl_library.h - NCCL, opened when it is needed --------------------------===//
#pragma once

#include "api/status.h"
#include "backends/nccl/nccl_api.h"

#include <string>

namespace braid::nccl {

/// A loaded NCCL. Stays loaded until the process ends.
struct Library {
  Functions call;
  int version = 0;  ///< as ncclGetVersion: 21903 for 2.19.3
  std::string file; ///< the file it was loaded from

  /// Opens, once in a process, the library that BRAID_NCCL_LIBRARY names; or, without that, the one
  /// that the process has already, or else libnccl.so.2 where the loader looks, or in
  /// nvidia/nccl/lib of the folders that BRAID_SITE_PACKAGES lists. Unsupported, in one line, if
  /// there is none, if it cannot be loaded, is older than 2.19, or lacks an entry point. From then
  /// on NCCL_NVLS_ENABLE is 0; a user who has set it to something else is refused.
  static Result<const Library *> load();
  /// The same from this file, each time anew.
  static Result<Library> open(const std::string &file);
};

/// Sets NCCL_NVLS_ENABLE, so that the library starts without NVLink multicast. Unsupported if the
/// user has asked for it.
Status keepMulticastOff();

/// "2.19.3"
std::string versionText(int version);

} // namespace braid::nccl
