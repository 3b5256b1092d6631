//===- backends/nccl/nccl_library.h - NCCL, opened on demand ----------------------------------===//
#pragma once

#include "api/status.h"
#include "backends/nccl/nccl_api.h"

#include <string>

namespace braid::nccl {

/// The NCCL library, which stays loaded until the process ends.
struct Library {
  Functions call;
  int version = 0;  ///< in ncclGetVersion's format: 21903 for 2.19.3
  std::string file; ///< the file from which NCCL was loaded

  /// Opens NCCL once per process: the file named by BRAID_NCCL_LIBRARY if set; otherwise, in this
  /// order, a copy that the process has already loaded, libnccl.so.2 on the loader's path, or
  /// nvidia/nccl/lib in a directory listed in BRAID_SITE_PACKAGES. Fails with Unsupported and a
  /// one-line message if no library can be loaded, or if it is older than 2.19 or lacks an entry
  /// point. Sets NCCL_NVLS_ENABLE to 0; fails if the user has set it to another value.
  static Result<const Library *> load();
  /// Like load(), but always opens `file`.
  static Result<Library> open(const std::string &file);
};

/// Sets NCCL_NVLS_ENABLE so that the library does not use NVLink multicast. Fails with Unsupported
/// if the user has enabled it.
Status keepMulticastOff();

/// Formats a version number, such as "2.19.3" for 21903.
std::string versionText(int version);

} // namespace braid::nccl
