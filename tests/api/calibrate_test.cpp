//===- tests/api/calibrate_test.cpp - measuring a machine with ranks that are threads ---------===//

#include "api/calibrate/calibration_programs.h"
#include "api/calibrate/job_model.h"
#include "api/compile/plans.h"
#include "api/timing/shared_tensors.h"
#include "ir/failure.h"
#include "tests/support/local_mesh.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

namespace braid {
namespace {

CalibrationOptions quick() {
  CalibrationOptions options;
  options.transferModes = {TransferMode()};
  return options;
}

/// Calls `fn` with a timer on each of `ranks` ranks.
Status onRanks(int64_t ranks, const std::function<Status(PlanTimer &)> &fn) {
  std::vector<TimedPlans> plans(static_cast<size_t>(ranks));
  BackendRegistry registry = builtinBackends();
  auto mesh = LocalMesh::create(*registry.find("cpu"), {.ranks = ranks});
  return (*mesh)->onEveryRank([&](int64_t rank) {
    PlanTimer timer((*mesh)->cluster(), rank, plans[static_cast<size_t>(rank)]);
    return fn(timer);
  });
}

TEST(SharedTensors, HaveOtherNumbersForEachInputAndRank) {
  std::vector<std::string> a(2), b(2);
  const Status status = onRanks(2, [&](PlanTimer &timer) {
    const PlanMatmul shape{DType::F32, 8, 8, 8, false, {}, {}, {}, {}};
    const std::vector<Plan> plans =
        BRAID_TRY(calibration::plansOf(calibration::gemms(timer.ranks(), shape, 1)));
    SharedTensors tensors(timer.device(), timer.rank());
    const auto inputs = BRAID_TRY(tensors.inputsOf(plans[static_cast<size_t>(timer.rank())]));
    const auto rank = static_cast<size_t>(timer.rank());
    a[rank].assign(static_cast<const char *>(inputs[0]), 256);
    b[rank].assign(static_cast<const char *>(inputs[1]), 256);
    return Status::ok();
  });
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_NE(a[0], b[0]);
  EXPECT_NE(a[0], a[1]);
  EXPECT_NE(b[0], b[1]);
}

TEST(Calibrate, FindsEveryCost) {
  std::vector<std::string> texts(3);
  Status status = onRanks(3, [&](PlanTimer &timer) {
    Result<CostModel> model = calibrate(timer, quick());
    if (!model)
      return model.status();
    texts[static_cast<size_t>(timer.rank())] = model->encode();
    return Status::ok();
  });
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(texts[0], texts[2]);
  Result<CostModel> model = CostModel::decode(texts[0]);
  ASSERT_TRUE(model.isOk()) << model.status().message();
  EXPECT_EQ(model->ranks, 3);
  const OperationCosts *costs = model->find(LaunchMode::Eager, {});
  ASSERT_TRUE(costs);
  EXPECT_GT(costs->signalUs, 0);
  EXPECT_GT(costs->issueUs, 0);
  for (const CopyCost &copy : {costs->local, costs->pull, costs->push, costs->message})
    EXPECT_GT(copy.bytesPerUs, 1) << "a megabyte a second";
}

TEST(Calibrate, ManagesWithoutPeers) {
  Status status = onRanks(1, [](PlanTimer &timer) { return calibrate(timer, quick()).status(); });
  EXPECT_TRUE(status.isOk()) << status.message();
}

PlanMatmul shape(int64_t m, bool transposeB = false) {
  return {DType::F32, m, 24, 16, transposeB, {}, {}, {}, {}};
}

TEST(Calibrate, MeasuresFewOfTheRowsOnce) {
  Status status = onRanks(2, [](PlanTimer &timer) {
    Result<CostModel> model = calibrate(timer, quick());
    if (!model)
      return model.status();
    PlanMatmul narrow{DType::BF16, 32, 24, 16, false, {}, {}, {}, {}}, wide = narrow;
    wide.partial = DType::F32;
    const std::vector<PlanMatmul> shapes = {shape(100), shape(99),        shape(64), shape(50),
                                            shape(33),  shape(0),         shape(25), shape(7),
                                            shape(6),   shape(100, true), narrow,    wide};
    Result<bool> any = measureGemms(*model, shapesToMeasure(shapes), timer, quick());
    EXPECT_TRUE(any.isOk() && *any);
    std::vector<int64_t> rows;
    for (const GemmCost &gemm : model->gemms) {
      EXPECT_GT(gemm.us, 0);
      rows.push_back(gemm.transposeB ? -gemm.m : gemm.m);
    }
    EXPECT_THAT(rows, testing::UnorderedElementsAre(100, 50, 25, 7, -100, 32, 32));
    EXPECT_TRUE(model->find(narrow) && model->find(wide)) << "results of two types";
    any = measureGemms(*model, shapesToMeasure(shapes), timer, quick());
    EXPECT_TRUE(any.isOk() && !*any) << "all is known";
    return Status::ok();
  });
  EXPECT_TRUE(status.isOk()) << status.message();
}

/// The folder of a cache. The destructor removes the folder.
struct CacheFolder {
  std::string path = ::testing::TempDir() + "/braid_job_model";
  CacheFolder() { std::filesystem::remove_all(path); }
  ~CacheFolder() { std::filesystem::remove_all(path); }
};

TEST(MeasureMachine, MeasuresEverythingOnAllRanks) {
  CalibrationOptions calibration;
  calibration.transports = {Transport::PeerMemory, Transport::Messages};
  std::vector<std::string> texts(2);
  Status status = onRanks(2, [&](PlanTimer &timer) {
    const CostModel model = BRAID_TRY(measureMachine(timer, calibration, {shape(50), shape(20)}));
    EXPECT_TRUE(model.find(shape(20)) && model.find(shape(50)));
    EXPECT_GT(model.operations.front().message.bytesPerUs, 1);
    texts[static_cast<size_t>(timer.rank())] = model.encode();
    return Status::ok();
  });
  EXPECT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(texts[0], texts[1]);
}

/// A job stores its measurements, and the next job finds them.
TEST(JobModel, KeepsWhatItMeasures) {
  const CacheFolder folder;
  JobModelOptions job;
  job.cacheFolder = folder.path;
  job.transferModes = {TransferMode()};
  Status status = onRanks(2, [&](PlanTimer &timer) {
    JobModel first(timer, job);
    BRAID_TRY(first.find());
    EXPECT_TRUE(BRAID_TRY(first.addGemms({shape(7), shape(20)})));
    JobModel second(timer, job);
    BRAID_TRY(second.find());
    EXPECT_TRUE(second.model().find(shape(7)) && second.model().find(shape(20)));
    EXPECT_FALSE(BRAID_TRY(second.addGemms({shape(7), shape(20)})));
    EXPECT_EQ(second.source().find("from ") == 0, timer.rank() == 0);
    return Status::ok();
  });
  EXPECT_TRUE(status.isOk()) << status.message();
}

/// Tests the duration of the warm-up, because power-limited GEMMs need a longer one.
TEST(PlanTimer, WarmsUpForAsLongAsItIsTold) {
  BackendRegistry registry = builtinBackends();
  auto mesh = LocalMesh::create(*registry.find("cpu"), {.ranks = 1});
  TimedPlans plans;
  Status status = (*mesh)->onEveryRank([&](int64_t rank) {
    using Clock = std::chrono::steady_clock;
    int runs = 0;
    Clock::time_point met;
    PlanTimer timer((*mesh)->cluster(), rank, plans, [&] {
      met = Clock::now();
      return ++runs > 0;
    });
    auto source = parseSource("t", "program @p mesh [0 .. 1) (%A: f32[4]) -> (%C: f32[4]) {\n"
                                   "  set %C, %A\n}\n");
    Result<Compiled> compiled = compile(*source, {});
    Result<TimedPlan> plan = timer.makeReady(*makePlans(*compiled), LaunchMode::Eager, {});
    if (!plan)
      return plan.status();
    if (Result<RunTime> time = timer.time(*plan, {.warmUp = 2, .most = 11}); !time)
      return time.status();
    EXPECT_LE(runs, 2 + 11);
    const Clock::time_point start = Clock::now();
    EXPECT_TRUE(timer.timeOnce(*plan));
    EXPECT_GE((std::chrono::duration<double, std::micro>(met - start).count()), kIdleGapUs)
        << "the device rests first";
    Result<RunTime> time = timer.time(*plan, {.warmUp = 2, .most = 11, .warmUpUs = 1e6});
    EXPECT_GE(runs, 50);
    return time.status();
  });
  EXPECT_TRUE(status.isOk()) << status.message();
}

/// Two Plans remain prepared and are timed alternately. The second Plan has far larger operands.
/// All ranks return the same times.
TEST(PlanTimer, LetsPlansTakeTurns) {
  std::vector<std::vector<double>> answers(2);
  Status status = onRanks(2, [&](PlanTimer &timer) {
    std::vector<TimedPlan> ready;
    for (int64_t rows : {4, 4000000}) {
      const std::string text =
          fmt::format("program @p mesh [0 .. 2) (%A: f32[{0}]) -> (%C: f32[{0}]) {{\n"
                      "  set %C, %A\n}}\n",
                      rows);
      auto source = parseSource("t", text);
      Result<Compiled> compiled = compile(*source, {});
      Result<TimedPlan> plan = timer.makeReady(*makePlans(*compiled), LaunchMode::Eager, {});
      if (!plan)
        return plan.status();
      ready.push_back(std::move(*plan));
    }
    std::vector<double> &mine = answers[static_cast<size_t>(timer.rank())];
    for (size_t turn : {0, 1, 0, 1}) {
      Result<RunTime> time = timer.time(ready[turn], {});
      if (!time)
        return time.status();
      EXPECT_GT(time->us, 0);
      EXPECT_LE(time->issueUs, time->us);
      mine.push_back(time->us);
    }
    EXPECT_LT(mine[0], mine[1]);
    Result<double> number = timer.largest(0.1 - double(timer.rank()));
    if (!number)
      return number.status();
    EXPECT_EQ(*number, 0.1);
    return Status::ok();
  });
  EXPECT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(answers[0], answers[1]);
}

} // namespace
} // namespace braid
