//===- tests/backends/racy_tsan.cpp - programs that ThreadSanitizer must report ---------------===//
//
//  racy_tsan            two streams of a rank write the same buffer, with no event between them
//  racy_tsan ranks      a rank copies from a peer that rewrites the buffer, with no signals
//  racy_tsan ordered    both, correctly ordered: no report is expected, and the exit status is 0
//
// If the cpu backend itself ordered streams or ranks, the sanitizer would miss these races.
//
//===----------------------------------------------------------------------------------------===//

#include "backends/cpu/cpu_backend.h"
#include "tests/support/flags.h"

#include <cstdio>
#include <string>
#include <thread>

using namespace braid;
using test::await;
using test::signal;

namespace {

constexpr int64_t kBytes = 4096;
constexpr int kRounds = 20;

char *allocate(Device &device, int64_t bytes) {
  Result<void *> memory = device.allocate(ArenaKind::Symmetric, bytes);
  if (!memory) {
    std::fprintf(stderr, "%s\n", memory.status().message().c_str());
    std::exit(70);
  }
  return static_cast<char *>(*memory);
}

Status writeOnTwoStreams(Device &device, bool isOrdered) {
  char *target = allocate(device, kBytes);
  char *source = allocate(device, 2 * kBytes);
  for (int i = 0; i < kRounds; ++i) {
    device.copy(1, {}, target, source, kBytes);
    if (isOrdered) {
      device.record(1, {}, 0);
      device.waitEvent(2, {}, 0);
    }
    device.copy(2, {}, target, source + kBytes, kBytes);
    if (isOrdered) {
      device.record(2, {}, 1);
      device.waitEvent(1, {}, 1);
    }
  }
  return device.synchronize();
}

/// One rank's memory, which the other rank accesses.
struct Side {
  char *shared, *flags;
};

/// Rank 0 writes its buffer and rank 1 reads it. synchronize() orders only commands of one rank.
Status passOn(Device &device, int64_t rank, const Side &mine, const Side &theirs, bool isOrdered) {
  char *own = allocate(device, kBytes);
  for (uint32_t epoch = 1; epoch <= kRounds; ++epoch) {
    if (isOrdered)
      await(device, 0, {}, mine.flags, rank == 0 ? epoch - 1 : epoch);
    if (rank == 0)
      device.copy(0, {}, mine.shared, own, kBytes);
    else
      device.copy(0, {}, own, theirs.shared, kBytes);
    if (isOrdered)
      signal(device, 0, {}, theirs.flags, epoch);
    if (epoch % 5 == 0)
      if (Status status = device.synchronize(); !status.isOk())
        return status;
  }
  return device.synchronize();
}

Status passBetweenRanks(Cluster &cluster, bool isOrdered) {
  Side sides[2];
  for (int64_t rank : {0, 1})
    sides[rank] = {allocate(cluster.device(rank), kBytes),
                   allocate(cluster.device(rank), kFlagStride)};
  Status outcomes[2];
  auto drive = [&](int64_t rank) {
    outcomes[rank] = passOn(cluster.device(rank), rank, sides[rank], sides[1 - rank], isOrdered);
  };
  std::thread first(drive, 0), second(drive, 1);
  first.join();
  second.join();
  return outcomes[0].isOk() ? outcomes[1] : outcomes[0];
}

Status run(const std::string &what) {
  BackendRegistry registry;
  registerCpuBackend(registry);
  ClusterOptions options;
  options.ranks = 2;
  Result<std::unique_ptr<Cluster>> cluster = registry.find("cpu")->create(options);
  if (!cluster)
    return cluster.status();
  Device &device = (*cluster)->device(0);
  if (Status status = device.reserveStreams(3); !status.isOk())
    return status;
  if (Result<uint32_t> events = device.createEvents(2); !events)
    return events.status();
  bool isOrdered = what == "ordered";
  Status status;
  if (what != "ranks")
    status = writeOnTwoStreams(device, isOrdered);
  if (status.isOk() && (what == "ranks" || isOrdered))
    status = passBetweenRanks(**cluster, isOrdered);
  return status;
}

} // namespace

int main(int argc, char **argv) {
  Status status = run(argc > 1 ? argv[1] : "streams");
  if (!status.isOk())
    std::fprintf(stderr, "%s\n", status.message().c_str());
  return static_cast<int>(status.code());
}
