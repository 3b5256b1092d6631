//===- tests/runtime/tune_gemms_test.cpp - which ranks measure GEMMs and which reuse results --===//

#include "runtime/tune/tune_gemms.h"

#include "api/ranks/backends.h"
#include "runtime/execute/executor.h"
#include "runtime/plan/specialize.h"
#include "tests/support/idle_device.h"

#include <gmock/gmock.h>

#include <map>
#include <thread>

namespace braid {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

/// Records the GEMMs that it is asked to tune, without computing anything.
class FakeDevice final : public test::IdleDevice, public GemmTuning {
public:
  explicit FakeDevice(std::string key, std::string name = "")
      : key_(std::move(key)), name_(std::move(name)) {}

  GemmTuning *tuning() override { return key_.empty() ? nullptr : this; }
  std::string tuningKey() const override { return key_; }
  Status loadAlgorithm(const PlanMatmul &shape) override {
    loaded.push_back(gemmKey(shape));
    return Status::ok();
  }
  Result<std::string> tune(const PlanMatmul &shape, milliseconds atMost) override {
    EXPECT_FALSE(loaded.empty());
    if (!failure.isOk())
      return failure;
    tuned.push_back(gemmKey(shape));
    times.push_back(atMost.count());
    return name_ + ": " + gemmKey(shape);
  }
  Status setAlgorithm(const PlanMatmul &shape, const std::string &choice) override {
    algorithm[gemmKey(shape)] = choice;
    return Status::ok();
  }
  Status warm(const PlanMatmul &shape) override {
    EXPECT_TRUE(key_.empty() || algorithm.count(gemmKey(shape))) << gemmKey(shape);
    ++warmed;
    return Status::ok();
  }

  Status failure;
  std::vector<std::string> tuned, loaded;
  std::vector<int64_t> times; ///< milliseconds per GEMM
  std::map<std::string, std::string> algorithm;
  int warmed = 0;

private:
  const std::string key_, name_;
};

const char *const kBlock = "GEMM f32 4x16x8", *const kPart = "GEMM f32 2x16x8";

/// Every rank runs the GEMM kBlock; ranks that satisfy `condition` also run kPart.
std::string program(const std::string &condition) {
  return "program @p mesh [0 .. 3) (%A: f32[4, 8], %B: f32[8, 16]) -> (%C: f32[4, 16]) {\n"
         "  matmul %C, %A, %B\n"
         "  if " +
         condition +
         " {\n"
         "    %a = slice %A[0 .. 2]\n"
         "    %c = slice %C[0 .. 2]\n"
         "    matmul %c, %a, %B\n"
         "  }\n"
         "}\n";
}

/// Calls prepare() on three ranks with the given devices and returns the outcomes.
std::vector<Status> prepareOn(const std::string &text, std::vector<FakeDevice> &devices,
                              UnknownGemms unknown = UnknownGemms::Measure) {
  auto source = parseSource("t.braid", text);
  std::vector<Plan> plans;
  for (int64_t rank = 0; rank < 3; ++rank) {
    Result<Plan> plan = specialize(*source->module.programs.front(), rank, source->diags);
    EXPECT_TRUE(plan.isOk()) << source->diags.str();
    plans.push_back(std::move(*plan));
  }
  BackendRegistry registry = builtinBackends();
  auto cluster = registry.find("null")->create({.ranks = 3});
  std::vector<Status> statuses(3);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      ControlPlane &control = (*cluster)->control(static_cast<int64_t>(rank));
      statuses[rank] = prepare(plans[rank], devices[rank], control, {}, unknown).status();
    });
  for (std::thread &thread : threads)
    thread.join();
  return statuses;
}

MATCHER(IsOk, "") { return arg.isOk(); }

TEST(TuneGemms, RankZeroMeasuresForAll) {
  std::vector<FakeDevice> devices = {FakeDevice("gpu", "0"), FakeDevice("gpu", "1"),
                                     FakeDevice("gpu", "2")};
  EXPECT_THAT(prepareOn(program("rank == 0"), devices), Each(IsOk()));
  EXPECT_THAT(devices[0].tuned, ElementsAre(kBlock, kPart));
  for (size_t rank : {1u, 2u}) {
    EXPECT_THAT(devices[rank].tuned, IsEmpty());
    EXPECT_THAT(devices[rank].loaded, ElementsAre(kBlock)) << "while rank 0 measures";
    EXPECT_THAT(devices[rank].algorithm, ElementsAre(Pair(kBlock, std::string("0: ") + kBlock)));
    EXPECT_EQ(devices[rank].warmed, 1);
  }
  EXPECT_EQ(devices[0].warmed, 2);
}

TEST(TuneGemms, WhatRankZeroDoesNotMultiplyIsMeasuredWhereItIs) {
  std::vector<FakeDevice> devices = {FakeDevice("gpu", "0"), FakeDevice("gpu", "1"),
                                     FakeDevice("gpu", "2")};
  EXPECT_THAT(prepareOn(program("rank == 1"), devices), Each(IsOk()));
  EXPECT_THAT(devices[0].tuned, ElementsAre(kBlock));
  EXPECT_THAT(devices[1].tuned, ElementsAre(kPart));
  EXPECT_THAT(devices[1].algorithm, UnorderedElementsAre(Pair(kBlock, std::string("0: ") + kBlock),
                                                         Pair(kPart, std::string("1: ") + kPart)));
  EXPECT_THAT(devices[2].tuned, IsEmpty());
}

TEST(TuneGemms, AnotherDeviceMeasuresForItself) {
  std::vector<FakeDevice> devices = {FakeDevice("gpu", "0"), FakeDevice("other", "1"),
                                     FakeDevice("gpu", "2")};
  EXPECT_THAT(prepareOn(program("rank == 2"), devices), Each(IsOk()));
  EXPECT_THAT(devices[1].tuned, ElementsAre(kBlock));
  EXPECT_THAT(devices[1].algorithm, ElementsAre(Pair(kBlock, std::string("1: ") + kBlock)));
  EXPECT_THAT(devices[2].tuned, ElementsAre(kPart));
}

TEST(TuneGemms, DevicesWithNothingToTuneAreNotAsked) {
  std::vector<FakeDevice> devices = {FakeDevice(""), FakeDevice(""), FakeDevice("")};
  EXPECT_THAT(prepareOn(program("rank == 1"), devices), Each(IsOk()));
  for (const FakeDevice &device : devices) {
    EXPECT_THAT(device.tuned, IsEmpty());
    EXPECT_THAT(device.algorithm, IsEmpty());
  }
  EXPECT_EQ(devices[1].warmed, 2);
}

TEST(TuneGemms, NobodyMeasuresWhereAGuessWillDo) {
  std::vector<FakeDevice> devices = {FakeDevice("gpu"), FakeDevice("gpu"), FakeDevice("other")};
  EXPECT_THAT(prepareOn(program("rank == 1"), devices, UnknownGemms::Guess), Each(IsOk()));
  for (const FakeDevice &device : devices)
    EXPECT_THAT(device.times, Each(0));
  EXPECT_EQ(devices[1].warmed, 2);
}

TEST(TuneGemms, ARankThatFailsEndsAll) {
  for (size_t failing : {0u, 1u}) {
    std::vector<FakeDevice> devices = {FakeDevice("gpu"), FakeDevice("gpu"), FakeDevice("gpu")};
    devices[failing].failure = Status(StatusCode::Unsupported, "no memory left");
    for (const Status &status : prepareOn(program("rank == 1"), devices)) {
      EXPECT_EQ(status.code(), StatusCode::Unsupported);
      EXPECT_THAT(status.message(), HasSubstr("no memory left"));
    }
  }
}

TEST(TuneGemms, ShapesShareTheTime) {
  std::string text = "program @p mesh [0 .. 3) (%A: f32[8, 8], %B: f32[8, 16]) -> "
                     "(%C: f32[8, 16]) {\n";
  for (int rows = 1; rows <= 4; ++rows) {
    const std::string n = std::to_string(rows);
    text += "  %a" + n + " = slice %A[0 .. " + n + "]\n  %c" + n + " = slice %C[0 .. " + n +
            "]\n  matmul %c" + n + ", %a" + n + ", %B\n";
  }
  std::vector<FakeDevice> devices = {FakeDevice("gpu"), FakeDevice("gpu"), FakeDevice("gpu")};
  EXPECT_THAT(prepareOn(text + "}\n", devices), Each(IsOk()));
  EXPECT_THAT(devices[0].times, SizeIs(4));
  EXPECT_THAT(devices[0].times.front(), AllOf(Ge(200), Le(300)));
  EXPECT_THAT(devices[0].times.back(), AllOf(Ge(500), Le(600))) << "the others took none";
}

TEST(GemmKey, TellsApartWhatIsMultipliedDifferently) {
  const Range some{0, 0, 2};
  EXPECT_EQ(gemmKey({DType::BF16, 128, 512, 1024, false, {}, {}, {}, {}}),
            "GEMM bf16 128x512x1024");
  EXPECT_EQ(gemmKey({DType::F64, 1, 2, 3, true, {}, {}, {}, some}), "GEMM f64 1x2x3 bT bias");
  EXPECT_EQ(gemmKey({DType::BF16, 1, 2, 3, false, {}, {}, {}, {}, /*overlaps=*/true}),
            "GEMM bf16 1x2x3 overlapped");
  EXPECT_EQ(gemmKey({DType::BF16, 1, 2, 3, true, {}, {}, {}, {}, false, DType::F32}),
            "GEMM bf16 1x2x3 to f32 bT");
  EXPECT_EQ(gemmKey({DType::BF16, 1, 2, 3, false, some, some, some, {}}),
            gemmKey({DType::BF16, 1, 2, 3, false, {}, {}, {}, {}}));
}

} // namespace
} // namespace braid
