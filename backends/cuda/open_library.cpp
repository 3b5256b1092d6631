//===- backends/cuda/open_library.cpp - libraries that are opened when they are needed --------===//

#include "backends/cuda/open_library.h"

#include "ir/failure.h"
#include "runtime/loader.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdlib>

namespace braid {
namespace {

std::string valueOf(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

} // namespace

Result<OpenLibrary> openLibrary(const LibraryPlaces &places, const std::string &file) {
  if (void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))
    return OpenLibrary{handle, file};
  return unsupported("{}: expected a library in {}, got '{}'", places.title, file, loaderError());
}

Result<OpenLibrary> openLibrary(const LibraryPlaces &places) {
  if (const std::string file = valueOf(places.variable); !file.empty())
    return openLibrary(places, file);
  for (int mode : {RTLD_NOLOAD, 0})
    if (void *handle = dlopen(places.name, RTLD_NOW | RTLD_LOCAL | mode))
      return OpenLibrary{handle, places.name};
  const std::string reason = loaderError();
  const std::string folders = valueOf("BRAID_SITE_PACKAGES");
  llvm::SmallVector<llvm::StringRef> list;
  llvm::StringRef(folders).split(list, ':', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef folder : list) {
    const std::string file = folder.str() + "/" + places.folder + "/" + places.name;
    if (void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))
      return OpenLibrary{handle, file};
  }
  return unsupported("{}: expected {}, got '{}'; {} may name the file", places.title, places.name,
                     reason, places.variable);
}

Status keepMulticastOff(const char *user, const char *variable, const char *off, bool isAskedFor) {
  if (isAskedFor)
    return unsupported("{}: expected {}={}, got '{}': NVLink multicast is not used, for a process "
                       "that ends while it has some may put GPUs out of service",
                       user, variable, off, valueOf(variable));
  setenv(variable, off, /*overwrite=*/1);
  return Status::ok();
}

} // namespace braid
