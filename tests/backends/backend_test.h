//===- tests/backends/backend_test.h - base of the conformance suite --------------------------===//
//
// Every test runs on every variant of every registered backend. Tests use the device's copy() to
// move data between ordinary host memory and the device, so they also work on devices whose memory
// the host cannot access.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/backend.h"
#include "tests/support/flags.h"

#include <gtest/gtest.h>

#include <functional>
#include <ostream>

namespace braid::test {

/// A backend and the options of its cluster.
struct Variant {
  std::string label; ///< "cpu", "cpu_one_queue", "cpu_seeded", "cpu_processes", "null"
  std::string backend;
  uint32_t queues = 0;
  std::optional<uint64_t> seed = {};
  bool isJoined = false; ///< true if ranks join a job, as separate processes do
};
std::ostream &operator<<(std::ostream &os, const Variant &variant);

BackendRegistry &allBackends();
/// Lists all variants that each registered backend accepts: with default options, with one queue,
/// with a schedule seed, and as ranks that join a job. Also lists backends that are unavailable on
/// this machine; their tests are skipped.
std::vector<Variant> allVariants();
/// Creates a cluster with all ranks.
Result<std::unique_ptr<Cluster>> create(const Variant &variant, ClusterOptions options = {});
std::string labelOf(const ::testing::TestParamInfo<Variant> &info);

/// Returns a rank's Plan with one command of each kind, used for tags. Command i has kind
/// CommandKind(i), stream 1, line 10 + i of test.braid, and the next rank as its peer.
Plan makePlan(int64_t rank, int64_t ranks);
Tag tagOf(const Plan &plan, CommandKind kind, uint32_t run = 1);

class BackendTest : public ::testing::TestWithParam<Variant> {
protected:
  /// Skips the test if the backend cannot create the variant, and prints the backend's reason.
  void SetUp() override;

  /// Creates the cluster, with `streams` streams and as many events on every device.
  void start(int64_t ranks, uint32_t streams = 4,
             std::chrono::milliseconds timeout = std::chrono::milliseconds(20000),
             bool isReproducible = false);
  int64_t ranks() const { return cluster_->ranks(); }
  Device &device(int64_t rank = 0) { return cluster_->device(rank); }
  ControlPlane &control(int64_t rank = 0) { return cluster_->control(rank); }
  const Plan &plan(int64_t rank = 0) const { return plans_[rank]; }
  Tag tag(CommandKind kind, int64_t rank = 0, uint32_t run = 1) const {
    return tagOf(plans_[rank], kind, run);
  }
  void destroyCluster() {
    cluster_.reset();
    plans_.clear();
  }

  /// Calls `body` concurrently for all ranks, each on a separate thread.
  void onEveryRank(const std::function<void(int64_t)> &body);

  void *allocate(int64_t bytes, int64_t rank = 0, ArenaKind kind = ArenaKind::Private);
  /// Allocates `count` flags.
  char *allocateFlags(int64_t count, int64_t rank = 0);

  /// Returns device memory that contains `values`. Synchronizes.
  template <class T> T *upload(const std::vector<T> &values, int64_t rank = 0) {
    int64_t bytes = static_cast<int64_t>(values.size() * sizeof(T));
    void *memory = allocate(bytes, rank);
    device(rank).copy(0, tag(CommandKind::Copy, rank), memory, values.data(), bytes);
    EXPECT_TRUE(device(rank).synchronize().isOk());
    return static_cast<T *>(memory);
  }
  /// Waits for all issued commands, and returns the contents of device memory.
  template <class T> std::vector<T> download(const void *memory, size_t count, int64_t rank = 0) {
    EXPECT_EQ(message(device(rank).synchronize()), "");
    std::vector<T> values(count);
    device(rank).copy(0, tag(CommandKind::Copy, rank), values.data(), memory,
                      static_cast<int64_t>(count * sizeof(T)));
    EXPECT_EQ(message(device(rank).synchronize()), "");
    return values;
  }
  static std::string message(const Status &status) { return status.message(); }

  bool computes() const { return allBackends().find(GetParam().backend)->computes; }
  bool hasOneQueue() const { return GetParam().queues == 1; }
  bool isJoined() const { return GetParam().isJoined; }

private:
  std::vector<Plan> plans_; ///< must outlive the cluster
  std::unique_ptr<Cluster> cluster_;
};

/// Skips tests that check results if the backend does not compute any.
#define BRAID_NEEDS_RESULTS()                                                                      \
  if (!computes())                                                                                 \
  GTEST_SKIP() << "for good: '" << GetParam().backend << "' computes nothing"

#define BRAID_CONFORMANCE(Suite)                                                                   \
  INSTANTIATE_TEST_SUITE_P(, Suite, ::testing::ValuesIn(allVariants()), labelOf)

} // namespace braid::test
