//===- backends/nccl/nccl_api.h - the subset of NCCL's interface in use -----------------------===//
//
// These declarations allow building without NCCL and its header; the library is opened at run time.
// Values and layouts match NCCL 2.19, or the stated version, and have not changed since.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <cuda_runtime.h>

#include <climits>
#include <cstddef>

namespace braid::nccl {

enum class Code : int {
  Success = 0,
  UnhandledCudaError = 1,
  SystemError = 2,
  InternalError = 3,
  InvalidArgument = 4,
  InvalidUsage = 5,
  RemoteError = 6,
  InProgress = 7,
};

enum class Type : int { Float16 = 6, Float32 = 7, Float64 = 8, Bfloat16 = 9 };
enum class Operator : int { Sum = 0, Product = 1, Max = 2, Min = 3 };

struct UniqueId {
  char bytes[128];
};

/// ncclConfig_t as of NCCL 2.27. The library reads the fields within `size`, and treats all others
/// as undefined.
struct Config {
  static constexpr int kUndefined = INT_MIN;
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 22700;
  int blocking = kUndefined;
  int cgaClusterSize = kUndefined;
  int minCTAs = kUndefined;
  int maxCTAs = kUndefined;
  const char *netName = nullptr;
  int splitShare = kUndefined;
  int trafficClass = kUndefined;
  const char *commName = nullptr;
  int collnetEnable = kUndefined;
  int ctaPolicy = kUndefined;
  int shrinkShare = kUndefined;
  int nvlsCTAs = kUndefined;
};

struct Comm; ///< ncclComm

/// Entry points, without the prefix `nccl`: NAME(result, name, arguments).
#define BRAID_NCCL_FUNCTIONS(NAME)                                                                 \
  NAME(Code, GetVersion, (int *))                                                                  \
  NAME(Code, GetUniqueId, (UniqueId *))                                                            \
  NAME(Code, CommInitRankConfig, (Comm **, int, UniqueId, int, Config *))                          \
  NAME(Code, CommFinalize, (Comm *))                                                               \
  NAME(Code, CommDestroy, (Comm *))                                                                \
  NAME(Code, CommAbort, (Comm *))                                                                  \
  NAME(Code, CommGetAsyncError, (Comm *, Code *))                                                  \
  NAME(const char *, GetErrorString, (Code))                                                       \
  NAME(const char *, GetLastError, (Comm *))                                                       \
  NAME(Code, GroupStart, ())                                                                       \
  NAME(Code, GroupEnd, ())                                                                         \
  NAME(Code, Send, (const void *, size_t, Type, int, Comm *, cudaStream_t))                        \
  NAME(Code, Recv, (void *, size_t, Type, int, Comm *, cudaStream_t))                              \
  NAME(Code, AllGather, (const void *, void *, size_t, Type, Comm *, cudaStream_t))                \
  NAME(Code, ReduceScatter, (const void *, void *, size_t, Type, Operator, Comm *, cudaStream_t))  \
  NAME(Code, AllReduce, (const void *, void *, size_t, Type, Operator, Comm *, cudaStream_t))      \
  NAME(Code, Broadcast, (const void *, void *, size_t, Type, int, Comm *, cudaStream_t))           \
  NAME(Code, Reduce, (const void *, void *, size_t, Type, Operator, int, Comm *, cudaStream_t))

/// Pointers to the library's functions, named without the prefix.
struct Functions {
#define BRAID_NCCL_MEMBER(Result, Name, Arguments) Result(*Name) Arguments = nullptr;
  BRAID_NCCL_FUNCTIONS(BRAID_NCCL_MEMBER)
#undef BRAID_NCCL_MEMBER
};

} // namespace braid::nccl
