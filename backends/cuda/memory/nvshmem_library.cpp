//===- backends/cuda/memory/nvshmem_library.cpp - NVSHMEM, opened when it is needed -----------===//

#include "backends/cuda/memory/nvshmem_library.h"

#include "backends/cuda/open_library.h"
#include "ir/failure.h"
#include "runtime/loader.h"

#include <dlfcn.h>

namespace braid::nvshmem {
namespace {

constexpr LibraryPlaces kPlaces = {"NVSHMEM", "BRAID_NVSHMEM_LIBRARY", "libnvshmem_host.so.3",
                                   "nvidia/nvshmem/lib"};

Result<Library> search() {
  const OpenLibrary opened = BRAID_TRY(openLibrary(kPlaces));
  Library library;
  const char *missing = nullptr;
  auto find = [&](const char *symbol, auto &function) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(opened.handle, symbol));
    if (!function && !missing)
      missing = symbol;
  };
#define BRAID_NVSHMEM_FIND(Result, Name, Arguments) find(#Name, library.Name);
  BRAID_NVSHMEM_FUNCTIONS(BRAID_NVSHMEM_FIND)
#undef BRAID_NVSHMEM_FIND
  library.file = fileOf(reinterpret_cast<const void *>(library.nvshmem_malloc), opened.name);
  if (missing)
    return unsupported("NVSHMEM: {} lacks {}; {} may name the file", library.file, missing,
                       kPlaces.variable);
  return library;
}

} // namespace

Result<const Library *> Library::load() {
  static const Result<Library> library = search();
  if (!library)
    return library.status();
  return &*library;
}

} // namespace braid::nvshmem
