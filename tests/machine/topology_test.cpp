//===- tests/machine/topology_test.cpp - what joins devices, from trees and NVML --------------===//

#include "api/machine/topology.h"
#include "tests/machine/fake_machine.h"

#include <gmock/gmock.h>

namespace braid::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char *kA = "0000:18:00.0";
constexpr const char *kB = "0000:19:00.0";

/// Two devices without NvLinks, of PCIe 5 x16 and PCIe 4 x8, where `more` is said of the first.
std::string twoDevices(const std::string &more = "") {
  return "device\nname first\nuuid GPU-1\npci 00000000:18:00.0\nmost_pcie_generation 5\n"
         "pcie_width 16\n" +
         more +
         "device\nname second\nuuid GPU-2\npci 00000000:19:00.0\nmost_pcie_generation 4\n"
         "pcie_width 8\n";
}

Machine read(FakeMachine &fake, const std::string &lines) {
  const Result<NvmlReport> nvml = fake.nvml(lines);
  EXPECT_TRUE(nvml) << nvml.status().message();
  return readMachine(*nvml, fake.root());
}

LinkClass classOf(const std::string &pathOfA, int64_t nodeOfA, const std::string &pathOfB,
                  int64_t nodeOfB, const std::string &more = "") {
  FakeMachine fake;
  fake.addPci(pathOfA, nodeOfA);
  fake.addPci(pathOfB, nodeOfB);
  return read(fake, twoDevices(more)).links[0][1].kind;
}

TEST(Topology, TheTreeSaysWhereWaysMeet) {
  EXPECT_EQ(classOf("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0", 0,
                    "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0", 0),
            LinkClass::PcieSwitch);
  EXPECT_EQ(
      classOf("pci0000:15/0000:15:01.0/0000:18:00.0", 0, "pci0000:15/0000:15:02.0/0000:19:00.0", 0),
      LinkClass::HostBridge);
  EXPECT_EQ(classOf("pci0000:15/0000:18:00.0", 1, "pci0000:80/0000:19:00.0", 1),
            LinkClass::SameNuma);
  EXPECT_EQ(classOf("pci0000:15/0000:18:00.0", 0, "pci0000:80/0000:19:00.0", 1),
            LinkClass::CrossNuma);
  EXPECT_EQ(classOf("pci0000:15/0000:18:00.0", -1, "pci0000:80/0000:19:00.0", -1),
            LinkClass::Unknown);
}

TEST(Topology, NvmlSaysItWhereThereIsNoTree) {
  const std::vector<std::pair<int, LinkClass>> cases = {
      {0, LinkClass::PcieSwitch},  {10, LinkClass::PcieSwitch}, {20, LinkClass::PcieSwitch},
      {30, LinkClass::HostBridge}, {40, LinkClass::SameNuma},   {50, LinkClass::CrossNuma}};
  for (const auto &[ancestor, kind] : cases) {
    FakeMachine fake;
    const Machine machine =
        read(fake, twoDevices("peer1.ancestor " + std::to_string(ancestor) + "\n"));
    EXPECT_EQ(machine.links[0][1].kind, kind) << ancestor;
  }
}

TEST(Topology, DevicesSayWhatTheyAre) {
  FakeMachine fake;
  fake.addPci("pci0000:15/0000:18:00.0", 1);
  const Machine machine = read(fake, twoDevices());
  ASSERT_EQ(machine.devices.size(), 2u);
  EXPECT_EQ(machine.devices[0].name, "first");
  EXPECT_EQ(machine.devices[0].uuid, "GPU-1");
  EXPECT_EQ(machine.devices[0].pci, kA);
  EXPECT_EQ(machine.devices[0].numaNode, 1);
  EXPECT_EQ(machine.devices[1].numaNode, -1); // /sys has none
  EXPECT_EQ(machine.links[1][1].kind, LinkClass::Own);
}

TEST(Topology, TheNarrowerEndCounts) {
  FakeMachine fake;
  const Machine machine = read(fake, twoDevices());
  EXPECT_NEAR(machine.links[0][1].nominalGBps, 15.75, 0.01); // PCIe 4 x8
  EXPECT_NEAR(machine.links[1][0].nominalGBps, 15.75, 0.01);
}

TEST(Topology, PcieLanesCarryWhatTheirEncodingLeaves) {
  EXPECT_NEAR(pcieGBps(1, 16), 4, 1e-9);
  EXPECT_NEAR(pcieGBps(2, 16), 8, 1e-9);
  EXPECT_NEAR(pcieGBps(3, 16), 15.754, 1e-3);
  EXPECT_NEAR(pcieGBps(4, 16), 31.508, 1e-3);
  EXPECT_NEAR(pcieGBps(5, 16), 63.015, 1e-3);
  EXPECT_NEAR(pcieGBps(6, 16), 121, 1e-9);
  EXPECT_EQ(pcieGBps(0, 16), 0);
  EXPECT_EQ(pcieGBps(99, 16), 0);
}

/// `count` links that are up, of this version, to a switch or to `remote`.
std::string links(int count, int version, const std::string &remote = "") {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    const std::string link = "link" + std::to_string(i) + ".";
    lines += link + "up 1\n" + link + "version " + std::to_string(version) + "\n";
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
  const Machine machine =
      read(fake, pairOf(links(18, 6) + "link_mbps 26562\n", links(17, 6) + "link_mbps 26562\n"));
  EXPECT_EQ(machine.links[0][1].kind, LinkClass::NvLink);
  EXPECT_EQ(machine.links[0][1].count, 17);
  EXPECT_DOUBLE_EQ(machine.links[0][1].nominalGBps, 17 * 25);
}

TEST(Topology, DirectLinksJoinTwo) {
  FakeMachine fake;
  const Machine machine =
      read(fake, pairOf(links(2, 2, "00000000:19:00.0"), links(2, 2, "00000000:18:00.0")));
  EXPECT_EQ(machine.links[0][1].kind, LinkClass::NvLink);
  EXPECT_EQ(machine.links[0][1].count, 2);
  EXPECT_DOUBLE_EQ(machine.links[0][1].nominalGBps, 50);
}

TEST(Topology, LinksToOthersJoinNobodyElse) {
  FakeMachine fake;
  const Machine machine =
      read(fake, pairOf(links(2, 2, "00000000:55:00.0"), links(2, 2, "00000000:56:00.0")));
  EXPECT_EQ(machine.links[0][1].kind, LinkClass::Unknown);
  EXPECT_EQ(machine.links[0][1].count, 0);
}

TEST(Topology, LinksThatAreDownJoinNobody) {
  FakeMachine fake;
  const Machine machine = read(fake, pairOf("link0.up 0\n", links(1, 6)));
  EXPECT_EQ(machine.links[0][1].kind, LinkClass::Unknown);
}

TEST(Topology, PartitionsOfSwitchesAreApart) {
  FakeMachine fake;
  const Machine machine = read(fake, pairOf(links(4, 6) + "peer1.nvlink 5\n", links(4, 6)));
  EXPECT_EQ(machine.links[0][1].kind, LinkClass::Unknown);
  EXPECT_EQ(machine.links[1][0].kind, LinkClass::NvLink); // of this direction nothing was said
}

double nominalOf(int version, const std::string &speed = "") {
  FakeMachine fake;
  return read(fake, pairOf(links(1, version) + speed, links(1, version))).links[0][1].nominalGBps;
}

TEST(Topology, LinksCarryWhatTheirGenerationDoes) {
  EXPECT_EQ(nominalOf(1), 20);
  for (int version = 2; version <= 6; ++version)
    EXPECT_EQ(nominalOf(version), 25) << version;
  EXPECT_EQ(nominalOf(7), 50);
  EXPECT_EQ(nominalOf(99), 0);
  EXPECT_EQ(nominalOf(99, "link_mbps 25781\n"), 25); // the speed is known
  EXPECT_EQ(nominalOf(99, "link_mbps 53125\n"), 50);
  EXPECT_EQ(nominalOf(99, "link_mbps 20000\n"), 20);
}

TEST(Topology, SaysWhyThereIsNoAccess) {
  FakeMachine fake;
  const Machine machine = read(fake, twoDevices("peer1.read 0\npeer1.write 3\n"));
  EXPECT_EQ(machine.links[0][1].noPeerAccess,
            "they are below root complexes between which it is not supported");
  EXPECT_EQ(machine.links[1][0].noPeerAccess, "");
}

TEST(Topology, EveryStatusButOkAndUnknownHasWords) {
  for (PeerStatus status : {PeerStatus::Chipset, PeerStatus::Gpu, PeerStatus::Topology,
                            PeerStatus::Disabled, PeerStatus::NotSupported})
    EXPECT_NE(strOf(status), "");
  EXPECT_EQ(strOf(PeerStatus::Ok), "");
  EXPECT_EQ(strOf(PeerStatus::Unknown), "");
}

TEST(Topology, WithoutNvmlLinksAreUnknown) {
  FakeMachine fake;
  fake.addPci("pci0000:15/0000:15:01.0/0000:18:00.0", 0);
  fake.addPci("pci0000:15/0000:15:01.0/0000:19:00.0", 0);
  const Machine machine =
      readMachine(std::vector<std::string>{kA, "00000000:19:00.0"}, std::nullopt, fake.root());
  EXPECT_EQ(machine.links[0][1].kind, LinkClass::Unknown);
  EXPECT_EQ(machine.links[0][0].kind, LinkClass::Own);
  EXPECT_EQ(machine.devices[1].pci, kB);
  EXPECT_EQ(machine.devices[1].numaNode, 0);
}

TEST(Topology, TheOrderIsThatOfTheCaller) {
  FakeMachine fake;
  const Result<NvmlReport> nvml = fake.nvml(twoDevices());
  const Machine machine = readMachine(std::vector<std::string>{kB, kA}, *nvml, fake.root());
  EXPECT_EQ(machine.devices[0].name, "second");
  EXPECT_EQ(machine.devices[1].name, "first");
}

TEST(Topology, PathsAreThoseOfTheTree) {
  FakeMachine fake;
  fake.addPci("pci0000:15/0000:15:01.0/0000:18:00.0", 3);
  EXPECT_THAT(pciPath(kA, fake.root()), ElementsAre("pci0000:15", "0000:15:01.0", kA));
  EXPECT_THAT(pciPath(kB, fake.root()), IsEmpty());
  EXPECT_THAT(pciPath("", fake.root()), IsEmpty());
  EXPECT_EQ(numaNodeOf(kA, fake.root()), 3);
  EXPECT_EQ(numaNodeOf(kB, fake.root()), -1);
  fake.write("/sys/bus/pci/devices/0000:20:00.0/numa_node", "many\n");
  EXPECT_EQ(numaNodeOf("0000:20:00.0", fake.root()), -1);
}

} // namespace
} // namespace braid::test
