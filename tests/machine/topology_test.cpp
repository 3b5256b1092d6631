//===- tests/machine/topology_test.cpp - links between devices, as reported by NVML -----------===//

#include "api/machine/topology.h"
#include "tests/machine/fake_machine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace braid::test {
namespace {

/// Returns two devices without NVLink, on PCIe 5 x16 and PCIe 4 x8. `more` contains further lines
/// for the first device.
std::string twoDevices(const std::string &more = "") {
  return "device\nname first\nuuid GPU-1\npci 00000000:18:00.0\nmost_pcie_generation 5\n"
         "pcie_width 16\n" +
         more +
         "device\nname second\nuuid GPU-2\npci 00000000:19:00.0\nmost_pcie_generation 4\n"
         "pcie_width 8\n";
}

using Links = std::vector<std::vector<Link>>;

Links read(FakeMachine &fake, const std::string &lines) {
  const Result<NvmlReport> nvml = fake.nvml(lines);
  EXPECT_TRUE(nvml) << nvml.status().message();
  return linksOf(*nvml);
}

TEST(Topology, NvmlSaysWherePathsMeet) {
  const std::vector<std::pair<int, LinkClass>> cases = {
      {0, LinkClass::PcieSwitch},  {10, LinkClass::PcieSwitch}, {20, LinkClass::PcieSwitch},
      {30, LinkClass::HostBridge}, {40, LinkClass::SameNuma},   {50, LinkClass::CrossNuma},
      {15, LinkClass::Unknown}};
  for (const auto &[ancestor, kind] : cases) {
    FakeMachine fake;
    const Links joined =
        read(fake, twoDevices("peer1.ancestor " + std::to_string(ancestor) + "\n"));
    EXPECT_EQ(joined[0][1].kind, kind) << ancestor;
  }
}

TEST(Topology, TheNarrowerEndCounts) {
  FakeMachine fake;
  const Links joined = read(fake, twoDevices());
  EXPECT_NEAR(joined[0][1].nominalGBps, 15.75, 0.01); // PCIe 4 x8
  EXPECT_NEAR(joined[1][0].nominalGBps, 15.75, 0.01);
  EXPECT_EQ(joined[1][1].kind, LinkClass::Own);
}

/// Returns `count` links that are up, to a switch or to `remote`.
std::string links(int count, const std::string &remote = "") {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    const std::string link = "link" + std::to_string(i) + ".";
    lines += link + "up 1\n";
    lines += remote.empty() ? link + "remote_type 2\n" + link + "remote 00000000:C1:00.0\n"
                            : link + "remote_type 0\n" + link + "remote " + remote + "\n";
  }
  return lines;
}

std::string pairOf(const std::string &ofA, const std::string &ofB) {
  return "device\npci 00000000:18:00.0\n" + ofA + "device\npci 00000000:19:00.0\n" + ofB;
}

TEST(Topology, SwitchesJoinAll) {
  FakeMachine fake;
  const Links joined =
      read(fake, pairOf(links(18) + "link_mbps 26562\n", links(17) + "link_mbps 26562\n"));
  EXPECT_EQ(joined[0][1].kind, LinkClass::NvLink);
  EXPECT_DOUBLE_EQ(joined[0][1].nominalGBps, 17 * 25);
}

TEST(Topology, DirectLinksJoinTwo) {
  FakeMachine fake;
  const Links joined = read(fake, pairOf(links(2, "00000000:19:00.0") + "link_mbps 25781\n",
                                         links(2, "00000000:18:00.0")));
  EXPECT_EQ(joined[0][1].kind, LinkClass::NvLink);
  EXPECT_DOUBLE_EQ(joined[0][1].nominalGBps, 50);
}

TEST(Topology, LinksToOthersJoinNobodyElse) {
  FakeMachine fake;
  const Links joined =
      read(fake, pairOf(links(2, "00000000:55:00.0"), links(2, "00000000:56:00.0")));
  EXPECT_EQ(joined[0][1].kind, LinkClass::Unknown);
}

TEST(Topology, LinksThatAreDownJoinNobody) {
  FakeMachine fake;
  const Links joined = read(fake, pairOf("link0.up 0\n", links(1)));
  EXPECT_EQ(joined[0][1].kind, LinkClass::Unknown);
}

TEST(Topology, PartitionsOfSwitchesAreApart) {
  FakeMachine fake;
  const Links joined = read(fake, pairOf(links(4) + "peer1.nvlink 5\n", links(4)));
  EXPECT_EQ(joined[0][1].kind, LinkClass::Unknown);
  EXPECT_EQ(joined[1][0].kind, LinkClass::NvLink); // nothing was reported for this direction
}

TEST(Topology, LinksCarryWhatTheySignalWithoutFraming) {
  for (const auto &[signals, carries] :
       {std::pair(106250, 100), {53125, 50}, {25781, 25}, {20000, 20}}) {
    FakeMachine fake;
    const std::string speed = fmt::format("link_mbps {}\n", signals);
    EXPECT_EQ(read(fake, pairOf(links(1) + speed, links(1)))[0][1].nominalGBps, carries);
  }
}

} // namespace
} // namespace braid::test
