//===- backends/nccl/nccl_library.cpp - NCCL, opened when it is needed ------------------------===//

#include "backends/nccl/nccl_library.h"

#include "backends/cuda/open_library.h"
#include "ir/failure.h"
#include "runtime/loader.h"

#include <cstdlib>

namespace braid::nccl {
namespace {

constexpr LibraryPlaces kPlaces = {"NCCL", "BRAID_NCCL_LIBRARY", "libnccl.so.2", "nvidia/nccl/lib"};
constexpr int kLeast = 21900;

Result<Library> read(const OpenLibrary &opened) {
  Library library;
  library.file = opened.name;
  EntryPoints found(opened.handle), optional = found;
#define BRAID_NCCL_FIND(Result, Name, Arguments) found.find("nccl" #Name, library.call.Name);
  BRAID_NCCL_FUNCTIONS(BRAID_NCCL_FIND)
#undef BRAID_NCCL_FIND
#define BRAID_NCCL_FIND(Result, Name, Arguments) optional.find("nccl" #Name, library.call.Name);
  BRAID_NCCL_WINDOW_FUNCTIONS(BRAID_NCCL_FIND)
#undef BRAID_NCCL_FIND
  if (library.call.GetVersion) {
    library.file = fileOf(reinterpret_cast<const void *>(library.call.GetVersion), opened.name);
    if (const Code code = library.call.GetVersion(&library.version); code != Code::Success)
      return unsupported("NCCL: {} does not say its version: error {} from ncclGetVersion",
                         library.file, static_cast<int>(code));
    if (library.version < kLeast)
      return unsupported("NCCL: expected version {} or later, got {} from {}; {} may name the file",
                         versionText(kLeast), versionText(library.version), library.file,
                         kPlaces.variable);
  }
  if (found.missing())
    return unsupported("NCCL: {} lacks {}; {} may name the file", library.file, found.missing(),
                       kPlaces.variable);
  return library;
}

/// A library reads its environment when the process first has a communicator.
Result<Library> search() {
  constexpr const char *kMulticast = "NCCL_NVLS_ENABLE";
  const char *asked = std::getenv(kMulticast);
  BRAID_TRY(keepMulticastOff("NCCL", kMulticast, "0", asked && llvm::StringRef(asked) != "0"));
  return read(BRAID_TRY(openLibrary(kPlaces)));
}

} // namespace

Result<Library> Library::open(const std::string &file) {
  return read(BRAID_TRY(openLibrary(kPlaces, file)));
}

Result<const Library *> Library::load() {
  static const Result<Library> library = search();
  if (!library)
    return library.status();
  return &*library;
}

std::string versionText(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

} // namespace braid::nccl
