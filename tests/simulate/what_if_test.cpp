#include "api/simulate/machines.h"
#include "api/simulate/sweep.h"
#include "api/simulate/what_if.h"

#include <gmock/gmock.h>

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CostModel h200() {
  const Result<CostModel> model = findMachine("h200-4");
  EXPECT_TRUE(model.isOk());
  return *model;
}

TEST(Machines, AreThere) {
  for (const ShippedMachine &machine : shippedMachines()) {
    const Result<CostModel> model = findMachine(machine.name);
    ASSERT_TRUE(model.isOk()) << machine.name << ": " << model.status().message();
    EXPECT_FALSE(model->machine.empty());
    for (DType dtype : {DType::BF16, DType::F16, DType::F32, DType::F64}) {
      PlanMatmul gemm{};
      gemm.dtype = dtype;
      gemm.m = gemm.n = gemm.k = 1024;
      EXPECT_TRUE(model->gemmCost(gemm).isOk()) << machine.name;
    }
  }
}

TEST(WhatIf, MultipliesWhatItNames) {
  const CostModel before = h200();
  const Result<CostModel> after = applyWhatIf(
      before, "link=2x,gemm=0.5x,launch=0,signal=3,memory=4,copy=0.5,network=8,latency=0");
  ASSERT_TRUE(after.isOk()) << after.status().message();
  const OperationCosts &was = before.operations[0], &is = after->operations[0];
  EXPECT_EQ(is.pull.bytesPerUs, 2 * was.pull.bytesPerUs);
  EXPECT_EQ(is.push.sharedBytesPerUs, 2 * was.push.sharedBytesPerUs);
  EXPECT_EQ(is.local.bytesPerUs, 4 * was.local.bytesPerUs);
  EXPECT_EQ(is.pull.fixedUs, 0.5 * was.pull.fixedUs);
  EXPECT_EQ(is.issueCopyUs, 0);
  EXPECT_EQ(is.runUs, 0);
  EXPECT_EQ(is.flightUs, 3 * was.flightUs);
  EXPECT_EQ(after->gemms[0].us, 2 * before.gemms[0].us);
  EXPECT_EQ(after->network.bytesPerUs, 8 * before.network.bytesPerUs);
  EXPECT_EQ(after->network.rankBytesPerUs, 8 * before.network.rankBytesPerUs);
  EXPECT_EQ(after->network.latencyUs, 0);
}

TEST(WhatIf, KnowsWhatOfAMessageIsLatency) {
  CostModel before = h200();
  const auto gather = CollectiveKind::AllGather;
  before.add(MessageCost{LaunchMode::Eager, gather, 4096, 10});
  before.add(MessageCost{LaunchMode::Eager, gather, 1 << 20, 50});
  before.add(MessageCost{LaunchMode::Eager, std::nullopt, 4096, 7});
  auto us = [&](const char *text, std::optional<CollectiveKind> kind, int64_t bytes) {
    const Result<CostModel> after = applyWhatIf(before, text);
    EXPECT_TRUE(after.isOk()) << text;
    return after->messageUs(LaunchMode::Eager, kind, bytes).value_or(-1);
  };
  EXPECT_EQ(us("link=2x", gather, 1 << 20), 30);
  EXPECT_EQ(us("link=2x", gather, 4096), 10);
  EXPECT_EQ(us("latency=3", gather, 1 << 20), 70);
  EXPECT_EQ(us("latency=0", std::nullopt, 4096), 0);
}

TEST(WhatIf, SaysWhatItExpects) {
  const std::pair<const char *, const char *> cases[] = {
      {"nic=2x",
       "expected one of link, network, memory, gemm, copy, latency, signal, launch, got 'nic'"},
      {"link", "expected link=FACTOR with a number from 0.000001 to 1000000, got 'link'"},
      {"link=0", "a number from 0.000001 to 1000000, got 'link=0'"},
      {"gemm=-1x", "got 'gemm=-1x'"},
      {"launch=-1",
       "expected launch=FACTOR with 0 or a number from 0.000001 to 1000000, got 'launch=-1'"},
      {"link=1e-300", "got 'link=1e-300'"},
      {"launch=1e308", "got 'launch=1e308'"},
      {"launch=nan", "got 'launch=nan'"},
      {"link=2y", "got 'link=2y'"},
  };
  for (const auto &[text, expected] : cases) {
    const Result<CostModel> model = applyWhatIf(h200(), text);
    ASSERT_FALSE(model.isOk()) << text;
    EXPECT_THAT(model.status().message(), HasSubstr(expected));
  }
}

TEST(Sweep, DoublesItsValue) {
  const auto read = parseSweep("ranks=2..20");
  ASSERT_TRUE(read.isOk());
  EXPECT_EQ(read->first, "ranks");
  EXPECT_THAT(read->second, ElementsAre(2, 4, 8, 16));
  const auto large = parseSweep("M=4611686018427387904..9223372036854775807");
  ASSERT_TRUE(large.isOk());
  EXPECT_EQ(large->second.size(), 1u);
  for (const char *text : {"", "M", "M=", "M=1", "M=4..2", "M=0..2", "=1..2", "M=1..x"}) {
    const auto wrong = parseSweep(text);
    ASSERT_FALSE(wrong.isOk()) << text;
    EXPECT_THAT(wrong.status().message(), HasSubstr("expected NAME=FROM..TO"));
  }
}

TEST(Sweep, IsWrittenAndDrawn) {
  Sweep sweep{"M", "a <machine>", {}};
  for (int64_t value : {1, 2, 4}) {
    MachinePrediction prediction;
    prediction.program = "p";
    prediction.ranks = 2;
    prediction.us = 10.0 * static_cast<double>(value);
    prediction.gemmsUs = prediction.us / 2;
    prediction.memoryBytes = value << 20;
    prediction.parts = {{"GEMM", 5}};
    sweep.points.push_back({value, 0, "ring", prediction});
  }
  EXPECT_EQ(
      toCsv(sweep),
      "M,ranks,us,E,gemms_us,others_us,GEMM_us,copy_us,sum_us,signal_us,event_us,message_us,"
      "launch_us,run_us,memory_bytes,schedule\n"
      "1,2,10.00,0.5000,5.00,0.00,5.00,0.00,0.00,0.00,0.00,0.00,0.00,0.00,1048576,\"ring\"\n"
      "2,2,20.00,0.5000,10.00,0.00,5.00,0.00,0.00,0.00,0.00,0.00,0.00,0.00,2097152,\"ring\"\n"
      "4,2,40.00,0.5000,20.00,0.00,5.00,0.00,0.00,0.00,0.00,0.00,0.00,0.00,4194304,\"ring\"\n");
  const std::string svg = toSvg(sweep);
  EXPECT_THAT(svg, HasSubstr("@p on a &lt;machine&gt;"));
  EXPECT_THAT(svg, HasSubstr(">MiB of memory a rank<"));
  sweep.points.push_back({2, 1, "bulk", sweep.points[1].prediction});
  sweep.curves = {"ring", "<bulk>"};
  const std::string both = toSvg(sweep);
  EXPECT_THAT(both, HasSubstr(">&lt;bulk&gt;</text>"));
  EXPECT_EQ(llvm::StringRef(both).count("<circle"), 3 * 4u);
  EXPECT_EQ(llvm::StringRef(both).count("<polyline"), 3 * 2u);
  sweep.curves.clear();
  sweep.points.resize(1);
  EXPECT_THAT(toSvg(sweep), HasSubstr("<circle"));
}

} // namespace
} // namespace braid
