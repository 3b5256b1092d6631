//===- tests/runtime/give_back_test.cpp - resources of programs are released ------------------===//

#include "api/ranks/backends.h"
#include "runtime/execute/recorded_runs.h"
#include "runtime/plan/specialize.h"
#include "tests/support/idle_device.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <malloc.h>
#include <thread>

namespace braid {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

// -- Order of releases. --

/// Supports graphs and records the resources that are released.
class Keeper final : public test::IdleDevice, public Graphs {
public:
  std::vector<std::string> calls;
  std::string unused;

  Graphs *graphs() override { return this; }
  Result<uint32_t> createEvents(uint32_t) override { return 40u; }
  void release(void *base) override {
    calls.push_back(fmt::format("arena {}", static_cast<char *>(base) - arenas));
  }
  void releaseEvents(uint32_t first) override { calls.push_back(fmt::format("events {}", first)); }
  void releaseGraph(uint32_t graph) override { calls.push_back(fmt::format("graph {}", graph)); }
  void recycle() override { calls.push_back("recycle"); }
  std::string unusedMemory(bool isAll) override {
    calls.push_back(isAll ? "name all" : "name");
    return unused;
  }
  void closeUnused(int64_t peer, const std::string &named) override {
    calls.push_back(fmt::format("close {} of {}", named, peer));
  }
  void freeUnused() override { calls.push_back("free"); }
  Status synchronize() override {
    calls.push_back("synchronize");
    return Status::ok();
  }
  Status beginCapture() override { return Status::ok(); }
  Result<uint32_t> endCapture() override { return graphs_++; }
  void launch(uint32_t graph, Tag) override { calls.push_back(fmt::format("launch {}", graph)); }
  uint64_t allocationOf(const void *address) override {
    return address < next ? allocation : allocation + 1;
  }

  uint64_t allocation = 1;                            ///< contains all addresses below `next`
  const void *next = reinterpret_cast<void *>(~0ull); ///< start of the next allocation

private:
  uint32_t graphs_ = 0;
};

/// The control plane of a single rank. Records its calls in the device's list.
class Meeting final : public test::Alone {
public:
  explicit Meeting(std::vector<std::string> &calls) : calls_(calls) {}
  Result<std::vector<std::string>> allGather(std::string mine) override {
    calls_.push_back("meet");
    return Alone::allGather(std::move(mine));
  }
  void abort(const Status &) override { calls_.push_back("abort"); }

private:
  std::vector<std::string> &calls_;
};

/// Returns the Plan of a program that copies its input to its output.
Plan copies() {
  auto source = parseSource("t.braid", "program @t mesh [0 .. 1) (%A: f32[4]) -> (%C: f32[4]) {\n"
                                       "  set %C, %A\n}\n");
  Result<Plan> plan = specialize(*source->module.programs.front(), 0, source->diags);
  EXPECT_TRUE(plan.isOk()) << source->diags.str();
  return *plan;
}

TEST(GiveBack, ArenasEventsAndTheGraphGoWithTheirProgram) {
  const Plan plan = copies();
  Keeper device;
  Meeting control(device.calls);
  Result<std::unique_ptr<Prepared>> prepared = prepare(plan, device, control);
  ASSERT_TRUE(prepared.isOk());
  ASSERT_GE(device.calls.size(), 4u);
  device.calls.resize(4);
  EXPECT_THAT(device.calls, ElementsAre("synchronize", "name", "meet", "recycle"));
  device.calls.clear();
  const void *input = nullptr;
  void *output = nullptr;
  ASSERT_TRUE((*prepared)->capture(input, output).isOk());
  EXPECT_TRUE(device.calls.empty());
  ASSERT_TRUE((*prepared)->capture(input, output).isOk());
  EXPECT_THAT(device.calls, ElementsAre("graph 0")) << "the one before";
  device.calls.clear();
  prepared->reset();
  EXPECT_THAT(device.calls,
              UnorderedElementsAre("graph 1", "events 40", "arena 0", "arena 1", "arena 2"));
}

/// The caller's allocator frees a tensor's memory and later obtains the same address again.
TEST(GiveBack, AGraphIsNotLaunchedOnceItsTensorsLieInOtherAllocations) {
  const Plan plan = copies();
  Keeper device;
  Meeting control(device.calls);
  Result<std::unique_ptr<Prepared>> prepared = prepare(plan, device, control);
  ASSERT_TRUE(prepared.isOk());
  device.calls.clear();
  RecordedRuns runs(**prepared);
  float memory[4] = {};
  const void *input = nullptr;
  void *output = memory;
  int checks = 0;
  const auto run = [&] {
    return runs.run(input, output, [&] {
      ++checks;
      return Status::ok();
    });
  };
  for (int i = 0; i < 3; ++i) // issued, recorded, replayed
    ASSERT_TRUE(run().isOk());
  EXPECT_THAT(device.calls, ElementsAre("launch 0", "launch 0"));
  EXPECT_EQ(checks, 1);
  device.calls.clear();
  device.allocation = 2;
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(run().isOk());
  EXPECT_THAT(device.calls, ElementsAre("graph 0", "launch 1"));
  EXPECT_EQ(checks, 2);
}

/// An allocator that maps memory in pieces may replace some pieces of a tensor's memory. The same
/// may happen to a tensor in an unknown allocation.
TEST(GiveBack, NoGraphIsRecordedOfATensorInSeveralOrUnknownAllocations) {
  const Plan plan = copies();
  Keeper device;
  Meeting control(device.calls);
  Result<std::unique_ptr<Prepared>> prepared = prepare(plan, device, control);
  ASSERT_TRUE(prepared.isOk());
  float memory[8] = {};
  const void *input = memory;
  void *output = memory + 4;
  for (bool isUnknown : {false, true}) {
    device.calls.clear();
    device.allocation = isUnknown ? 0 : 1;
    device.next = isUnknown ? memory + 8 : memory + 6;
    RecordedRuns runs(**prepared);
    for (int i = 0; i < 3; ++i)
      ASSERT_TRUE(runs.run(input, output, [] { return Status::ok(); }).isOk());
    EXPECT_TRUE(device.calls.empty()) << "nothing is launched";
  }
}

/// A rank frees memory after all peers have unmapped it and have confirmed this in a barrier.
TEST(GiveBack, MemoryIsFreedWhenItIsClosedEverywhere) {
  Keeper device;
  Meeting control(device.calls);
  ASSERT_TRUE(giveBack(device, control).isOk());
  EXPECT_THAT(device.calls, ElementsAre("synchronize", "name all", "meet", "recycle"));
  device.calls.clear();
  device.unused = "ipc:3";
  ASSERT_TRUE(giveBack(device, control).isOk());
  EXPECT_THAT(device.calls, ElementsAre("synchronize", "name all", "meet", "recycle",
                                        "close ipc:3 of 0", "meet", "free"));
}

// -- Several programs in sequence. --

/// Returns a program in which every rank receives the next rank's `size` elements.
std::string rotate(Protocol protocol, int64_t size) {
  const std::string send = "%s = p2p send %mine to (rank - 1) mod 3 via %h";
  const std::string receive = "%r = p2p recv %theirs from (rank + 1) mod 3 via %h";
  const bool isGet = protocol == Protocol::Get;
  return fmt::format("program @rotate mesh [0 .. 3) (%A: f32[{0}]) -> (%C: f32[{0}]) {{\n"
                     "  %all = allocate symmetric f32[2, {0}]\n"
                     "  %h = share_mem_handles {1} %all\n"
                     "  %mine = select %all[0]\n"
                     "  %theirs = select %all[1]\n"
                     "  %copy = allocate device f32[{0}]\n"
                     "  set %mine, %A\n"
                     "  {2}\n"
                     "  {3}\n"
                     "  wait %r\n"
                     "  wait %s\n"
                     "  set %copy, %theirs\n"
                     "  set %C, %copy\n}}\n",
                     size, name(protocol).str(), isGet ? send : receive, isGet ? receive : send);
}

constexpr int64_t kRanks = 3;
constexpr uint32_t kRuns = 3; ///< number of runs of each program

struct Rotation {
  int64_t size;
  std::vector<Plan> plans;
};

std::vector<Rotation> makeRotations() {
  std::vector<Rotation> made;
  for (int64_t size : {4, 30000, 100, 9000, 50000})
    for (Protocol protocol : {Protocol::Get, Protocol::Put}) {
      made.push_back({size, {}});
      auto source = parseSource("t.braid", rotate(protocol, size));
      for (int64_t rank = 0; rank < kRanks; ++rank) {
        Result<Plan> plan = specialize(*source->module.programs.front(), rank, source->diags);
        EXPECT_TRUE(plan.isOk()) << source->diags.str();
        made.back().plans.push_back(std::move(*plan));
      }
    }
  return made;
}

/// The caller's tensors on one rank, for all runs of a program.
class Runs {
public:
  Runs(const Rotation &rotation, int64_t rank, int number) : rank_(rank), number_(number) {
    for (uint32_t run = 0; run < kRuns; ++run) {
      in_.emplace_back(rotation.size, value(rank, run));
      out_.emplace_back(rotation.size, -1.f);
    }
  }
  void issue(Prepared &prepared) {
    for (uint32_t run = 0; run < kRuns; ++run) {
      const void *in = in_[run].data();
      void *out = out_[run].data();
      prepared.run(in, out);
    }
  }
  bool areExact() const {
    for (uint32_t run = 0; run < kRuns; ++run)
      for (float each : out_[run])
        if (each != value((rank_ + 1) % kRanks, run))
          return false;
    return true;
  }

private:
  float value(int64_t rank, uint32_t run) const {
    return static_cast<float>(100 * number_ + 10 * static_cast<int>(rank) + static_cast<int>(run));
  }
  int64_t rank_;
  int number_;
  std::vector<std::vector<float>> in_, out_;
};

/// Prepares and runs the programs in turn. Destroying a program waits for its runs in flight.
Status runInTurn(llvm::ArrayRef<Rotation> rotations, Cluster &cluster, int64_t rank, int first,
                 int count) {
  Device &device = cluster.device(rank);
  std::unique_ptr<Runs> before;
  for (int i = first; i < first + count; ++i) {
    const Rotation &rotation = rotations[static_cast<size_t>(i) % rotations.size()];
    auto prepared =
        prepare(rotation.plans[static_cast<size_t>(rank)], device, cluster.control(rank));
    if (!prepared)
      return prepared.status();
    if (before && !before->areExact())
      return Status(StatusCode::WrongResult, fmt::format("program {}", i - 1));
    before = std::make_unique<Runs>(rotation, rank, i);
    before->issue(**prepared);
  }
  return device.synchronize();
}

class InTurn : public testing::TestWithParam<ClusterOptions> {
protected:
  void run(int first, int count) {
    std::vector<Status> statuses(kRanks);
    std::vector<std::thread> threads;
    for (int64_t rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, rank] {
        Status &status = statuses[static_cast<size_t>(rank)];
        status = runInTurn(rotations_, *cluster_, rank, first, count);
        if (!status.isOk())
          cluster_->control(rank).abort(status);
      });
    for (std::thread &thread : threads)
      thread.join();
    for (const Status &status : statuses)
      EXPECT_TRUE(status.isOk()) << status.message();
  }
  /// Returns the number of bytes in use on the heap.
  static size_t allocatedBytes() {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  }

  std::vector<Rotation> rotations_ = makeRotations();
  BackendRegistry registry_ = builtinBackends();
  std::unique_ptr<Cluster> cluster_;
};

TEST_P(InTurn, SixHundredProgramsTakeNoMoreMemoryThanAFew) {
  auto cluster = registry_.find("cpu")->create(GetParam());
  ASSERT_TRUE(cluster) << cluster.status().message();
  cluster_ = std::move(*cluster);
  run(0, 30);
  const size_t before = allocatedBytes();
  run(30, 570);
  // All programs together would need more than 100 MB.
  EXPECT_LT(allocatedBytes(), before + (size_t(4) << 20));
}

ClusterOptions options(uint32_t queues, std::optional<uint64_t> seed) {
  ClusterOptions made;
  made.ranks = kRanks;
  made.queues = queues;
  made.scheduleSeed = seed;
  return made;
}

INSTANTIATE_TEST_SUITE_P(Ways, InTurn,
                         testing::Values(options(0, std::nullopt), options(1, std::nullopt),
                                         options(0, 7)),
                         [](const auto &way) { return "way" + std::to_string(way.index); });

} // namespace
} // namespace braid
