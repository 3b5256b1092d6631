//===- tests/machine/nvml_test.cpp - loading the library and reading its answers --------------===//

#include "api/machine/nvml.h"
#include "tests/machine/fake_machine.h"

#include <gmock/gmock.h>

namespace braid::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char *kAll = R"(driver 580.95.05
cuda 13000
device
name NVIDIA H100 80GB HBM3
uuid GPU-11111111-0000-0000-0000-000000000000
pci 00000000:1A:00.0
memory 150754820096
mig 0
compute_mode 3
enforced_power_limit 450500
default_power_limit 700000
sm_clock 1200
most_sm_clock 1980
clock_reasons 0x44
ecc 1
uncorrected_volatile 2
uncorrected_aggregate 5000000000
pcie_width 8
most_pcie_generation 5
most_pcie_width 16
link_mbps 26562
link0.up 1
link0.remote 00000000:C1:00.0
link0.remote_type 2
link0.replay 1
link0.recovery 2
link0.crc_flit 3
link0.crc_data 4
link5.up 0
peer1.read 0
peer1.write 3
peer1.nvlink 5
peer1.ancestor 50
device
mig 1
)";

TEST(AskNvml, SaysTheSameAsTheLibrary) {
  FakeMachine machine;
  const Result<NvmlReport> report = machine.nvml(kAll);
  ASSERT_TRUE(report) << report.status().message();
  EXPECT_EQ(report->devices[0].uuid, "GPU-11111111-0000-0000-0000-000000000000");
}

TEST(AskWithin, ALateAnswerIsGivenUp) {
  auto isOver = std::make_shared<std::promise<void>>();
  const Result<int> answer = askWithin<int>(std::chrono::milliseconds(50), "CUDA", [isOver] {
    isOver->get_future().wait();
    return Result<int>(1);
  });
  EXPECT_EQ(answer.status().code(), StatusCode::TimedOut);
  EXPECT_EQ(answer.status().message(),
            "the driver did not respond to CUDA within 50 ms: nvidia-smi would also hang");
  isOver->set_value();
}

TEST(AskNvml, FailuresComeThrough) {
  FakeMachine machine;
  const Result<NvmlReport> report = machine.nvml("init 18\n");
  EXPECT_EQ(report.status().code(), StatusCode::Unsupported);
  EXPECT_EQ(report.status().message(), machine.nvml("init 18\n").status().message());
}

TEST(Nvml, EveryAnswerHasItsField) {
  FakeMachine machine;
  const Result<NvmlReport> report = machine.nvml(kAll);
  ASSERT_TRUE(report) << report.status().message();
  EXPECT_EQ(report->library, BRAID_FAKE_NVML);
  EXPECT_EQ(report->driver, "580.95.05");
  EXPECT_EQ(report->cudaVersion, 13000);
  ASSERT_EQ(report->devices.size(), 2u);
  const NvmlDevice &device = report->devices[0];
  EXPECT_EQ(device.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(device.uuid, "GPU-11111111-0000-0000-0000-000000000000");
  EXPECT_EQ(device.pci, "0000:1a:00.0");
  EXPECT_EQ(device.memoryBytes, 150754820096u);
  EXPECT_EQ(device.mig, false);
  EXPECT_EQ(device.computeMode, ComputeMode::ExclusiveProcess);
  EXPECT_EQ(device.powerLimit, 450.5);
  EXPECT_EQ(device.defaultPowerLimit, 700);
  EXPECT_EQ(device.smClock, 1200u);
  EXPECT_EQ(device.mostSmClock, 1980u);
  EXPECT_EQ(device.clockReasons, 0x44u);
  EXPECT_EQ(device.ecc, true);
  EXPECT_EQ(device.uncorrected, 2u);
  EXPECT_EQ(device.uncorrectedEver, 5000000000u);
  EXPECT_EQ(device.pcieWidth, 8u);
  EXPECT_EQ(device.mostPcieGeneration, 5u);
  EXPECT_EQ(device.mostPcieWidth, 16u);
  EXPECT_EQ(device.linkMBps, 26562u);
}

TEST(Nvml, LinksAndPairsHaveTheirs) {
  FakeMachine machine;
  const Result<NvmlReport> report = machine.nvml(kAll);
  ASSERT_TRUE(report) << report.status().message();
  ASSERT_EQ(report->devices[0].links.size(), 2u);
  const NvmlLink &up = report->devices[0].links[0], &down = report->devices[0].links[1];
  EXPECT_TRUE(up.isUp);
  EXPECT_EQ(up.number, 0);
  EXPECT_EQ(up.remote, "0000:c1:00.0");
  EXPECT_EQ(up.isToSwitch, true);
  EXPECT_EQ(up.errors, 10u);
  EXPECT_FALSE(down.isUp);
  EXPECT_EQ(down.number, 5);
  const NvmlPair &pair = report->pairs[0][1];
  EXPECT_EQ(pair.refusal, "peer access is not supported between their PCIe root complexes");
  EXPECT_EQ(pair.mayUseNvLink, false);
  EXPECT_EQ(pair.ancestor, 50u);
  EXPECT_EQ(report->pairs[0][0].mayUseNvLink, std::nullopt);
}

TEST(Nvml, WhatIsRefusedIsNotKnown) {
  FakeMachine machine;
  const Result<NvmlReport> report = machine.nvml("device\n");
  ASSERT_TRUE(report) << report.status().message();
  EXPECT_EQ(report->driver, "");
  EXPECT_EQ(report->cudaVersion, 0);
  ASSERT_EQ(report->devices.size(), 1u);
  const NvmlDevice &device = report->devices[0];
  EXPECT_EQ(device.name, "");
  EXPECT_EQ(device.pci, "");
  EXPECT_EQ(device.mig, std::nullopt);
  EXPECT_EQ(device.computeMode, std::nullopt);
  EXPECT_EQ(device.powerLimit, std::nullopt);
  EXPECT_EQ(device.clockReasons, std::nullopt);
  EXPECT_EQ(device.uncorrected, std::nullopt);
  EXPECT_EQ(device.linkMBps, std::nullopt);
  EXPECT_TRUE(device.links.empty());
}

TEST(Nvml, AnOldLibraryAnswersWhatItHas) {
  FakeMachine machine;
  const Result<NvmlReport> report = machine.nvml(kAll, BRAID_FAKE_NVML_OLD);
  ASSERT_TRUE(report) << report.status().message();
  ASSERT_EQ(report->devices.size(), 2u);
  EXPECT_EQ(report->devices[0].mig, std::nullopt);
  EXPECT_EQ(report->devices[0].clockReasons, 0x44u);
  EXPECT_TRUE(report->devices[0].links.empty());
  EXPECT_EQ(report->pairs[0][1].refusal, "");
}

TEST(Nvml, UnknownValuesAreNotKnown) {
  FakeMachine machine;
  const auto report = machine.nvml("device\ncompute_mode 9\npeer1.read 77\ndevice\n");
  ASSERT_TRUE(report) << report.status().message();
  EXPECT_EQ(report->devices[0].computeMode, std::nullopt);
  EXPECT_EQ(report->pairs[0][1].refusal, "");
}

std::string failureOf(const std::string &library, const std::string &lines = "") {
  FakeMachine machine;
  const Result<NvmlReport> report = machine.nvml(lines, library);
  EXPECT_FALSE(report);
  EXPECT_EQ(report.status().code(), StatusCode::Unsupported);
  return report.status().message();
}

TEST(Nvml, WhatDoesNotOpenSaysWhy) {
  EXPECT_THAT(failureOf("/nowhere/libnvidia-ml.so.1"),
              HasSubstr("NVML: cannot load /nowhere/libnvidia-ml.so.1: "));
  EXPECT_THAT(failureOf("/nowhere/libnvidia-ml.so.1"),
              HasSubstr("; set BRAID_NVML_LIBRARY to the path"));
  EXPECT_THAT(failureOf("libm.so.6"), HasSubstr("NVML: libm.so.6 lacks nvmlInit_v2; "));
  EXPECT_THAT(failureOf(BRAID_FAKE_NVML, "init 9\n"), HasSubstr(": the driver is not loaded"));
  EXPECT_THAT(failureOf(BRAID_FAKE_NVML, "init 18\n"),
              HasSubstr(": its version does not match the loaded driver"));
  EXPECT_THAT(failureOf(BRAID_FAKE_NVML, "init 4\n"),
              HasSubstr(": this user does not have permission to query the driver"));
  EXPECT_THAT(failureOf(BRAID_FAKE_NVML, "init 999\n"), HasSubstr(": error 999"));
}

TEST(Nvml, AddressesHaveOneForm) {
  EXPECT_EQ(normalizedPci("00000000:1A:00.0"), "0000:1a:00.0");
  EXPECT_EQ(normalizedPci("00010000:1A:00.0"), "00010000:1a:00.0");
  EXPECT_EQ(normalizedPci("0000:1a:00.0"), "0000:1a:00.0");
  EXPECT_EQ(normalizedPci(""), "");
}

} // namespace
} // namespace braid::test
