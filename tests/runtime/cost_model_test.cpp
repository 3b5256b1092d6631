//===- tests/runtime/cost_model_test.cpp - text form of the cost model, and its GEMM formula --===//

#include "runtime/simulate/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

using testing::HasSubstr;

PlanMatmul shape(int64_t m, int64_t n, int64_t k, DType dtype = DType::BF16) {
  return {dtype, m, n, k, false, {}, {}, {}, {}};
}

CostModel someModel() {
  CostModel model;
  model.machine = "a machine";
  model.ranks = 4;
  OperationCosts costs;
  costs.transferMode = {CopyBy::Kernel, SignalBy::Default};
  costs.launchMode = LaunchMode::Graph;
  costs.runUs = 12.5;
  costs.signalUs = 1.0 / 3;
  costs.pull = {11, 397000};
  costs.message = {9, 280000};
  model.operations = {{}, costs};
  model.network.rankBytesPerUs = 1.5;
  model.gemms.push_back({.m = 100, .n = 8, .k = 8, .us = 10});
  model.gemms.push_back({.m = 200, .n = 8, .k = 8, .us = 20});
  return model;
}

TEST(CostModel, ReadsWhatItWrote) {
  std::string text = someModel().encode();
  Result<CostModel> model = CostModel::decode(text);
  ASSERT_TRUE(model.isOk()) << model.status().message();
  EXPECT_EQ(model->encode(), text);
  const TransferMode transferMode{CopyBy::Kernel, SignalBy::Default};
  const OperationCosts *costs = model->find(LaunchMode::Graph, transferMode);
  ASSERT_TRUE(costs);
  EXPECT_EQ(costs->signalUs, 1.0 / 3);
  EXPECT_EQ(costs->pull.bytesPerUs, 397000);
  EXPECT_FALSE(model->find(LaunchMode::Eager, transferMode));
  EXPECT_EQ(costs->message.fixedUs, 9);
  EXPECT_EQ(model->find(shape(100, 8, 8))->us, 10);
  EXPECT_EQ(model->network.rankBytesPerUs, 1.5);
}

/// Replaces a part of `text` and returns the error message of decode().
std::string refusal(std::string text, const std::string &from, const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  Status status = CostModel::decode(text.replace(at, from.size(), to)).status();
  EXPECT_EQ(status.code(), StatusCode::BadInput);
  return status.message();
}

TEST(CostModel, SaysWhatItDoesNotUnderstand) {
  const std::string text = someModel().encode();
  EXPECT_EQ(CostModel::decode("").status().message(), "cost model: 1:1: expected JSON");
  EXPECT_EQ(CostModel::decode("[]").status().message(),
            "cost model: expected an object, got an array");
  struct Case {
    const char *from, *to, *message;
  };
  for (const Case &each : std::initializer_list<Case>{
           {"model 8", "model 9",
            "format: expected \"braid cost model 8\", got \"braid cost model 9\"; run braid "
            "calibrate to write a new file"},
           {"\"ranks\": 4", "\"ranks\": 0", "ranks: expected an integer from 1 to"},
           {"\"ranks\": 4", "\"ranks\": -4", "got -4"},
           {"12.5", "-1", "operations[1].run_us: expected a number from 0 to"},
           {"12.5", "1e99", "got 1e+99"},
           {"12.5", "1e999", "operations[1].run_us: expected a number from 0 to 1"},
           {"12.5", "NaN", "expected JSON"},
           {"397000", "0", "operations[1].pull.bytes_per_us: expected a number from 0.001 to"},
           {"\"graph\"", "\"slow\"",
            "operations[1].launch_mode: expected eager or graph, got \"slow\""},
           {"\"copies\": \"kernel\"", "\"copies\": \"hand\"",
            "operations[1].copies: expected default, engine or kernel, got \"hand\""},
           {"\"issue_us\"", "\"issue\"", "operations[0].issue_us: expected a number from 0 to"},
           {"\"bf16\"", "\"i8\"", "gemms[0].dtype: expected bf16, f16, f32 or f64, got \"i8\""},
           {"\"m\": 100", "\"m\": -1", "gemms[0].m: expected an integer from 1 to"},
           {"\"m\": 100", "\"m\": 0.5", "gemms[0].m: expected an integer from 1 to"},
           {"\"m\": 100", "\"m\": null", "got nothing"},
           {"\"us\": 10", "\"us\": -10", "gemms[0].us: expected a number from 0 to"},
           {"\"message\"", "\"massage\"", "operations[0].message: expected an object, got nothing"},
           {"\"gemms\"", "\"gems\"", "gemms: expected a list of objects, got nothing"},
           {"\"latency_us\": 10", "\"latency_us\": -1",
            "network.latency_us: expected a number from 0 to"},
           {"\"rank_bytes_per_us\": 1.5", "\"rank_bytes_per_us\": 0",
            "network.rank_bytes_per_us: expected a number from 0.001 to"}})
    EXPECT_THAT(refusal(text, each.from, each.to), HasSubstr(each.message));
  const std::string deep(100000, '['), ends(100000, ']');
  EXPECT_THAT(refusal(text, "\"graph\"", deep + ends),
              testing::EndsWith(": expected JSON nested at most 64 levels deep"));
}

/// A GEMM with an addend also reads as many bytes as its result contains.
TEST(CostModel, KnowsGemmsThatAdd) {
  CostModel model = someModel();
  model.operations[0].local = {1, 50};
  model.operations[1].local = {1, 100}; // for example, a kernel that is slower than memory
  PlanMatmul adds = shape(100, 8, 8);
  adds.addend = {0, 0, 1600};
  EXPECT_DOUBLE_EQ(*model.gemmUs(adds), 10 + 1600 / 2 / 100.0);
}

TEST(CostModel, KnowsGemmsBetweenMeasuredRows) {
  const CostModel model = someModel();
  auto us = [&](int64_t m, int64_t n, int64_t k) { return *model.gemmUs(shape(m, n, k)); };
  EXPECT_EQ(us(100, 8, 8), 10);
  EXPECT_EQ(us(150, 8, 8), 15);
  EXPECT_EQ(us(50, 8, 8), 10) << "as the smallest";
  EXPECT_EQ(us(400, 8, 8), 40);
  EXPECT_EQ(us(200, 16, 8), 40) << "the flop rate of the nearest";
  EXPECT_EQ(model.gemmUs(shape(1, 1, 1, DType::F64)).status().code(), StatusCode::Unsupported);
}

TEST(CostModel, KnowsResultsOfOtherTypesApart) {
  CostModel model = someModel();
  PlanMatmul narrow = shape(200, 8, 8), wide = narrow, wider = shape(200, 16, 8);
  wide.partial = wider.partial = DType::F32;
  EXPECT_EQ(model.find(wide), nullptr);
  EXPECT_EQ(*model.gemmUs(wide), 20) << "as the other one";
  EXPECT_EQ(*model.gemmUs(wider), 40) << "as the nearest";
  model.gemms.push_back({.m = 200, .n = 8, .k = 8, .us = 50, .partial = DType::F32});
  EXPECT_EQ(*model.gemmUs(wide), 50) << "measured";
  EXPECT_EQ(*model.gemmUs(narrow), 20) << "still";
  const std::string text = model.encode();
  Result<CostModel> decoded = CostModel::decode(text);
  ASSERT_TRUE(decoded) << decoded.status().message();
  EXPECT_EQ(decoded->encode(), text);
  EXPECT_EQ(*decoded->gemmUs(wide), 50);
  EXPECT_EQ(refusal(text, "\"result\": \"f32\"", "\"result\": \"f16\""),
            "cost model: gemms[2].result: expected the same type as dtype, or f32 if dtype is a "
            "16-bit type, got \"f16\"");
  EXPECT_THAT(refusal(text, "\"result\": \"f32\"", "\"result\": 4"),
              HasSubstr("gemms[2].result: expected bf16, f16, f32 or f64, got 4"));
}

TEST(CostModel, ReplacesWhatIsMeasuredAgain) {
  CostModel model = someModel();
  OperationCosts costs = model.operations[1];
  costs.runUs = 5;
  model.add(costs);
  EXPECT_EQ(model.operations.size(), 2u);
  EXPECT_EQ(model.find(costs.launchMode, costs.transferMode)->runUs, 5);
}

} // namespace
} // namespace braid
