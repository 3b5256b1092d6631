//===- api/ranks/run_memory.cpp - the memory that a run needs ---------------------------------===//

#include "api/ranks/run_memory.h"

#include "backends/cpu/gemm.h"
#include "ir/counted.h"
#include "runtime/memory_limit.h"

#include <algorithm>
#include <thread>

#include <pthread.h>

namespace braid {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kHeap = 64 * kMiB; ///< reserved by glibc for each thread's small allocations

/// A rank's memory in bytes: `own` is private to the rank, `shared` is also mapped by peers.
struct RankMemory {
  double own, shared;
  size_t threads;
};

double stackBytes() {
  pthread_attr_t attributes;
  size_t bytes = 0;
  if (pthread_getattr_default_np(&attributes) == 0) {
    pthread_attr_getstacksize(&attributes, &bytes);
    pthread_attr_destroy(&attributes);
  }
  return static_cast<double>(bytes);
}

/// Returns an upper bound on the scratch memory for GEMMs that compute in a type other than that of
/// their operands: every stream may need the scratch memory of the largest GEMM.
double scratchOf(const Plan &plan) {
  size_t largest = 0;
  for (const PlanMatmul &m : plan.matmuls)
    largest = std::max(largest, scratchBytes(m.dtype, m.m, m.n, m.k));
  return static_cast<double>(largest) * static_cast<double>(plan.streams.size());
}

/// Returns the total size in bytes of the caller's tensors for one run on one rank.
int64_t argumentBytes(const Plan &plan) {
  int64_t bytes = 0;
  for (const PlanBuffer &buffer : plan.buffers)
    if (buffer.kind == BufferKind::Input || buffer.kind == BufferKind::Output)
      bytes += buffer.bytes;
  return bytes;
}

RankMemory memoryOf(const Plan &plan, const Backend &backend, int64_t runs) {
  RankMemory memory{static_cast<double>(argumentBytes(plan)) * static_cast<double>(runs), 0, 1};
  if (!backend.isOnHost)
    return memory;
  memory.own += static_cast<double>(plan.deviceBytes);
  memory.shared = static_cast<double>(plan.symmetricBytes);
  if (!backend.computes)
    return memory;
  memory.own += scratchOf(plan);
  memory.threads += plan.streams.size();
  return memory;
}

/// Returns the size of the address space reserved in addition to the tensors. If the address space
/// is exhausted, GEMMs wait for their buffers forever.
double reservedFor(size_t threads, const Backend &backend) {
  if (!backend.isOnHost)
    return 0; // unknown for backends that run on devices
  const auto cores = static_cast<double>(std::max(1u, std::thread::hardware_concurrency()));
  const auto count = static_cast<double>(threads);
  // While glibc aligns a new heap, the heap temporarily takes twice its size.
  double bytes = count * stackBytes() + (std::min(count, 8 * cores) + 1) * kHeap;
  return backend.computes ? bytes + std::min(count, cores) * double(kGemmBufferBytes) : bytes;
}

} // namespace

int64_t runsInFlight(const RunOptions &options, const Plan &plan) {
  if (options.isGraph()) // a graph contains fixed addresses
    return 1;
  constexpr int64_t kMaxRunsInFlight = 4, kBudget = int64_t(1) << 30;
  int64_t fitting = kBudget / std::max<int64_t>(argumentBytes(plan) * plan.ranks, 1);
  return std::clamp<int64_t>(fitting, 1, std::min(kMaxRunsInFlight, options.iterations));
}

Status expectRunMemory(llvm::ArrayRef<Plan> plans, const Backend &backend,
                       const RunOptions &options, bool areThreads) {
  double total = 0, shared = 0, largest = 0; // doubles, to avoid overflow
  size_t threads = 0, mostThreads = 0;
  for (const Plan &plan : plans) {
    RankMemory memory = memoryOf(plan, backend, runsInFlight(options, plans.front()));
    total += memory.own + memory.shared;
    shared += memory.shared;
    largest = std::max(largest, memory.own);
    threads += memory.threads;
    mostThreads = std::max(mostThreads, memory.threads + 1); // plus the watchdog
  }
  const double ofProcess = areThreads ? total + reservedFor(threads, backend)
                                      : largest + shared + reservedFor(mostThreads, backend);
  return expectMemory({total, ofProcess},
                      "running " + counted(int64_t(plans.size()), "rank") + " takes",
                      "use fewer ranks or smaller tensors");
}

} // namespace braid
