//===- backends/cuda/memory/nvshmem_library.h - NVSHMEM, opened when it is needed -------------===//
//
// The part of the host library's interface that is used, declared here, so that neither NVSHMEM nor
// its headers are needed to build. Layouts are those of NVSHMEM 3.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include <cstddef>
#include <string>

namespace braid::nvshmem {

/// A struct says its version and its size in its first word.
template <class Struct> constexpr int versionOf() { return (1 << 16) + int(sizeof(Struct)); }

struct UniqueId {
  int version = 0;
  char internal[124] = {};
};
static_assert(sizeof(UniqueId) == 128);

struct UniqueIdArguments {
  int version = 0;
  UniqueId *id = nullptr;
  int rank = 0, ranks = 0;
};
static_assert(sizeof(UniqueIdArguments) == 24);

struct InitArguments {
  int version = 0;
  UniqueIdArguments uniqueId;
  char padding[96] = {};
};
static_assert(sizeof(InitArguments) == 128);

struct InitAttributes {
  int version = 0;
  void *communicator = nullptr;
  InitArguments arguments;
};
static_assert(sizeof(InitAttributes) == 144);

constexpr unsigned kInitWithUniqueId = 1u << 3;
constexpr int kNotInitialized = 0; ///< as nvshmemx_init_status

/// Entry points. NAME(result, name, arguments)
#define BRAID_NVSHMEM_FUNCTIONS(NAME)                                                              \
  NAME(int, nvshmemx_init_status, ())                                                              \
  NAME(int, nvshmemx_get_uniqueid, (UniqueId *))                                                   \
  NAME(int, nvshmemx_set_attr_uniqueid_args,                                                       \
       (const int, const int, const UniqueId *, InitAttributes *))                                 \
  NAME(int, nvshmemx_hostlib_init_attr, (unsigned, InitAttributes *))                              \
  NAME(void, nvshmemx_hostlib_finalize, ())                                                        \
  NAME(void *, nvshmem_malloc, (size_t))                                                           \
  NAME(void *, nvshmem_ptr, (const void *, int))

/// A loaded NVSHMEM. Stays loaded until the process ends.
struct Library {
#define BRAID_NVSHMEM_MEMBER(Result, Name, Arguments) Result(*Name) Arguments = nullptr;
  BRAID_NVSHMEM_FUNCTIONS(BRAID_NVSHMEM_MEMBER)
#undef BRAID_NVSHMEM_MEMBER
  std::string file; ///< the file it was loaded from

  /// Opens, once in a process, the library that BRAID_NVSHMEM_LIBRARY names; or, without that,
  /// libnvshmem_host.so.3 where the loader looks, or in nvidia/nvshmem/lib of the folders that
  /// BRAID_SITE_PACKAGES lists. Unsupported, in one line, if there is none, or it lacks an entry
  /// point.
  static Result<const Library *> load();
};

} // namespace braid::nvshmem
