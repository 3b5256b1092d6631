//===- backends/nccl/nccl_library.cpp - NCCL, opened on demand --------------------------------===//

#include "backends/nccl/nccl_library.h"

#include "backends/nccl/entry_points.h"
#include "ir/failure.h"
#include "runtime/loader.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdlib>

namespace braid::nccl {
namespace {

constexpr const char *kVariable = "BRAID_NCCL_LIBRARY";
constexpr int kLeast = 21900;

/// A library that stays loaded until the process ends.
struct Opened {
  void *handle = nullptr; ///< returned by dlopen()
  std::string name;       ///< the name passed to dlopen()
};

std::string valueOf(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

Result<Opened> openFile(const std::string &file) {
  if (void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))
    return Opened{handle, file};
  return unsupported("NCCL: cannot load {}: {}", file, loaderError());
}

/// Prefers a copy that the process has already loaded, because two copies would not share state.
Result<Opened> find() {
  if (const std::string file = valueOf(kVariable); !file.empty())
    return openFile(file);
  constexpr const char *kName = "libnccl.so.2";
  for (int mode : {RTLD_NOLOAD, 0})
    if (void *handle = dlopen(kName, RTLD_NOW | RTLD_LOCAL | mode))
      return Opened{handle, kName};
  const std::string reason = loaderError(), folders = valueOf("BRAID_SITE_PACKAGES");
  llvm::SmallVector<llvm::StringRef> list;
  llvm::StringRef(folders).split(list, ':', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef folder : list)
    if (Result<Opened> opened = openFile(folder.str() + "/nvidia/nccl/lib/" + kName))
      return opened;
  return unsupported("NCCL: cannot load {}: {}; set {} to the path of another NCCL library", kName,
                     reason, kVariable);
}

Result<Library> read(const Opened &opened) {
  Library library;
  library.file = opened.name;
  EntryPoints found(opened.handle);
#define BRAID_NCCL_FIND(Result, Name, Arguments) found.find("nccl" #Name, library.call.Name);
  BRAID_NCCL_FUNCTIONS(BRAID_NCCL_FIND)
#undef BRAID_NCCL_FIND
  if (library.call.GetVersion) {
    library.file = fileOf(reinterpret_cast<const void *>(library.call.GetVersion), opened.name);
    if (const Code code = library.call.GetVersion(&library.version); code != Code::Success)
      return unsupported("NCCL: cannot get the version of {}: ncclGetVersion returned error {}",
                         library.file, static_cast<int>(code));
    if (library.version < kLeast)
      return unsupported("NCCL: expected version {} or later, got {} from {}; set {} to the path "
                         "of another NCCL library",
                         versionText(kLeast), versionText(library.version), library.file,
                         kVariable);
  }
  if (found.missing())
    return unsupported("NCCL: {} lacks {}; set {} to the path of another NCCL library",
                       library.file, found.missing(), kVariable);
  return library;
}

} // namespace

/// NCCL reads NCCL_NVLS_ENABLE when the process creates its first communicator.
Status keepMulticastOff() {
  constexpr const char *kMulticast = "NCCL_NVLS_ENABLE";
  if (const std::string asked = valueOf(kMulticast); !asked.empty() && asked != "0")
    return unsupported(
        "NCCL: expected {}=0, got '{}': Braid does not use NVLink multicast, because a process "
        "that exits while holding multicast memory can make GPUs unusable",
        kMulticast, asked);
  setenv(kMulticast, "0", /*overwrite=*/1);
  return Status::ok();
}

static Result<Library> search() {
  BRAID_TRY(keepMulticastOff());
  return read(BRAID_TRY(find()));
}

Result<Library> Library::open(const std::string &file) { return read(BRAID_TRY(openFile(file))); }

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
