//===- tests/backends/backend_test.cpp - base of the conformance suite ------------------------===//

#include "tests/backends/backend_test.h"

#include "backends/cpu/cpu_backend.h"
#include "backends/null/null_backend.h"
#ifdef BRAID_HAS_CUDA
#include "backends/cuda/cuda_backend.h"
#endif
#include "runtime/job/bootstrap/client.h"
#include "tests/backends/joined_cluster.h"

#include <thread>

namespace braid::test {

std::ostream &operator<<(std::ostream &os, const Variant &variant) { return os << variant.label; }

#ifdef BRAID_HAS_CUDA
/// Returns the cuda backend; ranks share GPUs if there are fewer GPUs than ranks.
static Backend cudaBackend() {
  setenv("BRAID_SHARE_GPUS", "on", /*overwrite=*/0);
  BackendRegistry registry;
  registerGpuBackends(registry);
  return *registry.find("cuda");
}
#endif

BackendRegistry &allBackends() {
  static BackendRegistry registry = [] {
    BackendRegistry all;
#ifdef BRAID_HAS_CUDA
    all.add(cudaBackend());
#endif
    registerNullBackend(all);
    registerCpuBackend(all);
    return all;
  }();
  return registry;
}

Result<std::unique_ptr<Cluster>> create(const Variant &variant, ClusterOptions options) {
  options.queues = variant.queues;
  options.scheduleSeed = variant.seed;
  const Backend &backend = *allBackends().find(variant.backend);
  if (!variant.isJoined && !backend.create)
    return Status(StatusCode::Unsupported, "for good: its ranks are processes");
  return variant.isJoined ? joinAll(backend, options) : backend.create(options);
}

namespace {

/// Adds the variant unless the backend rejects its options, as some backends do on every machine.
void addIfAccepted(std::vector<Variant> &variants, Variant variant) {
  if (create(variant))
    variants.push_back(std::move(variant));
}

} // namespace

std::vector<Variant> allVariants() {
  std::vector<Variant> variants;
  for (const Backend &backend : allBackends().all()) {
    variants.push_back({backend.name, backend.name});
    addIfAccepted(variants, {backend.name + "_one_queue", backend.name, 1});
    addIfAccepted(variants, {backend.name + "_seeded", backend.name, 0, 7});
    addIfAccepted(variants, {backend.name + "_processes", backend.name, 0, {}, true});
    addIfAccepted(variants, {backend.name + "_processes_one_queue", backend.name, 1, {}, true});
  }
  return variants;
}

std::string labelOf(const ::testing::TestParamInfo<Variant> &info) { return info.param.label; }

Plan makePlan(int64_t rank, int64_t ranks) {
  Plan plan;
  plan.program = "test";
  plan.sourceName = "test.braid";
  plan.rank = rank;
  plan.ranks = ranks;
  plan.flags = 1;
  plan.events = 1;
  plan.streams = {"main", "side"};
  plan.endpoints.push_back({.direction = Direction::Receive,
                            .protocol = Protocol::Get,
                            .peer = (rank + 1) % ranks,
                            .channel = 0,
                            .sequence = 0,
                            .range = {},
                            .dtype = DType::F32,
                            .flag = 0,
                            .origin = 0});
  plan.matmuls.push_back({DType::F32, 1, 1, 1, false, {}, {}, {}, {}});
  for (uint32_t i = 0; i <= static_cast<uint32_t>(CommandKind::WaitEvent); ++i) {
    CommandKind kind = static_cast<CommandKind>(i);
    plan.sites.push_back({{10 + i, 5}, "node " + std::to_string(i)});
    plan.origins.push_back({i, 0, 0});
    Command command{.kind = kind};
    command.stream = 1;
    command.origin = i;
    command.endpoint = kind == CommandKind::Signal || kind == CommandKind::Await ? 0 : kNone;
    command.event = kind == CommandKind::Record || kind == CommandKind::WaitEvent ? 0 : kNone;
    command.matmul = kind == CommandKind::Matmul ? 0 : kNone;
    plan.commands.push_back(command);
  }
  return plan;
}

Tag tagOf(const Plan &plan, CommandKind kind, uint32_t run) {
  return {&plan, static_cast<uint32_t>(kind), run};
}

void BackendTest::SetUp() {
  Result<std::unique_ptr<Cluster>> cluster = create(GetParam());
  if (!cluster && cluster.status().code() == StatusCode::Unsupported)
    GTEST_SKIP() << cluster.status().message();
  ASSERT_TRUE(cluster) << cluster.status().message();
}

void BackendTest::start(int64_t ranks, uint32_t streams, std::chrono::milliseconds timeout,
                        bool isReproducible) {
  ClusterOptions options;
  options.ranks = ranks;
  options.timeout = timeout;
  options.reproducible = isReproducible;
  Result<std::unique_ptr<Cluster>> cluster = create(GetParam(), options);
  ASSERT_TRUE(cluster) << cluster.status().message();
  for (int64_t rank = 0; rank < ranks; ++rank)
    plans_.push_back(makePlan(rank, ranks));
  (*cluster)->setPlans(plans_);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    ASSERT_TRUE(
        (*cluster)->device(rank).registerPlan(plans_[static_cast<size_t>(rank)], {}).isOk());
    ASSERT_TRUE((*cluster)->device(rank).reserveStreams(streams).isOk());
    Result<uint32_t> first = (*cluster)->device(rank).createEvents(streams);
    ASSERT_TRUE(first);
    ASSERT_EQ(*first, 0u);
  }
  cluster_ = std::move(*cluster);
}

void BackendTest::onEveryRank(const std::function<void(int64_t)> &body) {
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks(); ++rank)
    threads.emplace_back(body, rank);
  for (std::thread &thread : threads)
    thread.join();
}

void *BackendTest::allocate(int64_t bytes, int64_t rank, ArenaKind kind) {
  Result<void *> memory = device(rank).allocate(kind, bytes);
  EXPECT_TRUE(memory) << memory.status().message();
  return memory ? *memory : nullptr;
}

char *BackendTest::allocateFlags(int64_t count, int64_t rank) {
  return static_cast<char *>(allocate(count * kFlagStride, rank, ArenaKind::Flags));
}

} // namespace braid::test
