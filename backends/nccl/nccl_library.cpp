//===- backends/nccl/nccl_library.cpp - NCCL, opened when it is needed ------------------------===//

#include "backends/nccl/nccl_library.h"

#include "ir/failure.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

namespace braid::nccl {
namespace {

constexpr const char *kName = "libnccl.so.2";
constexpr int kLeast = 21900;
constexpr const char *kWhere = "BRAID_NCCL_LIBRARY may name the file";

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

std::string loaderError() {
  const char *text = dlerror();
  return text ? text : "no reason given";
}

/// Where a function of it was loaded from.
std::string fileOf(const void *function, const std::string &otherwise) {
  Dl_info info = {};
  return dladdr(function, &info) && info.dli_fname ? info.dli_fname : otherwise;
}

Result<Library> read(void *handle, const std::string &name) {
  Library library;
  library.file = name;
  const char *missing = nullptr;
  auto find = [&](const char *symbol, auto &function) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(handle, symbol));
    if (!function && !missing)
      missing = symbol;
  };
#define BRAID_NCCL_FIND(Result, Name, Arguments) find("nccl" #Name, library.call.Name);
  BRAID_NCCL_FUNCTIONS(BRAID_NCCL_FIND)
#undef BRAID_NCCL_FIND
  if (library.call.GetVersion) {
    library.file = fileOf(reinterpret_cast<const void *>(library.call.GetVersion), name);
    if (const Code code = library.call.GetVersion(&library.version); code != Code::Success)
      return unsupported("NCCL: {} does not say its version: error {} from ncclGetVersion",
                         library.file, static_cast<int>(code));
    if (library.version < kLeast)
      return unsupported("NCCL: expected version {} or later, got {} from {}; {}",
                         versionText(kLeast), versionText(library.version), library.file, kWhere);
  }
  if (missing)
    return unsupported("NCCL: {} lacks {}; {}", library.file, missing, kWhere);
  return library;
}

Result<Library> search() {
  if (const std::string file = variable("BRAID_NCCL_LIBRARY"); !file.empty())
    return Library::open(file);
  // One that is here already belongs to whoever shares the process: two would not know each other.
  if (void *handle = dlopen(kName, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD))
    return read(handle, kName);
  if (void *handle = dlopen(kName, RTLD_NOW | RTLD_LOCAL))
    return read(handle, kName);
  const std::string reason = loaderError();
  const std::string folders = variable("BRAID_SITE_PACKAGES");
  llvm::SmallVector<llvm::StringRef> list;
  llvm::StringRef(folders).split(list, ':', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef folder : list) {
    const std::string file = folder.str() + "/nvidia/nccl/lib/" + kName;
    if (void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))
      return read(handle, file);
  }
  return unsupported("NCCL: expected {}, got '{}'; {}", kName, reason, kWhere);
}

} // namespace

Result<Library> Library::open(const std::string &file) {
  void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return unsupported("NCCL: expected a library in {}, got '{}'", file, loaderError());
  return read(handle, file);
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
