//===- tests/doctor/process_status_test.cpp - what the kernel gives, understood or not --------===//

#include "api/doctor/process_status.h"

#include <gmock/gmock.h>

namespace braid::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ProcessStatus, TakesTheLinesItKnows) {
  const ProcessStatus status =
      parseProcessStatus("Name:\tbraid\nUid:\t1000\t0\t0\t0\nNSpid:\t4711\t12\t1\n"
                         "CapEff:\t0000000000080000\nSeccomp:\t2\nSeccomp_filters:\t1\n");
  EXPECT_EQ(status.user, 0);
  EXPECT_EQ(status.pidNamespaces, 3);
  EXPECT_EQ(status.seccomp, 2);
  EXPECT_TRUE(status.hasCapability(kCapSysPtrace));
  EXPECT_FALSE(status.hasCapability(kCapSysAdmin));
}

TEST(ProcessStatus, WhatIsWrongIsNotKnown) {
  const ProcessStatus status = parseProcessStatus("Seccomp:\tyes\nCapEff:\txyz\nUid:\t7\n");
  EXPECT_EQ(status.seccomp, std::nullopt);
  EXPECT_EQ(status.capabilities, std::nullopt);
  EXPECT_EQ(status.user, std::nullopt);
  EXPECT_EQ(status.pidNamespaces, std::nullopt);
  EXPECT_FALSE(status.hasCapability(kCapSysPtrace));
}

TEST(ProcessStatus, NamespacesAreNumbers) {
  EXPECT_EQ(parseNamespace("pid:[4026531836]", "pid"), kFirstPidNamespace);
  EXPECT_EQ(parseNamespace("ipc:[4026531839]", "ipc"), kFirstIpcNamespace);
  EXPECT_EQ(parseNamespace("ipc:[4026531839]", "pid"), std::nullopt);
  EXPECT_EQ(parseNamespace("pid:[]", "pid"), std::nullopt);
  EXPECT_EQ(parseNamespace("", "pid"), std::nullopt);
}

std::string space(uint32_t firstHeader, uint32_t control = 0) {
  std::string bytes(4096, '\0');
  for (size_t i = 0; i < 4; ++i)
    bytes[0x100 + i] = static_cast<char>(firstHeader >> (8 * i));
  bytes[0x106] = static_cast<char>(control);
  return bytes;
}

TEST(Acs, RedirectsIfAskedTo) {
  EXPECT_EQ(redirectsPeers(space(0x0001000d, 0x1d)), true);
  EXPECT_EQ(redirectsPeers(space(0x0001000d, 0x08)), true);
  EXPECT_EQ(redirectsPeers(space(0x0001000d, 0x11)), false); // checks sources, forwards upwards
  EXPECT_EQ(redirectsPeers(space(0)), false);
}

TEST(Acs, IsNotKnownOfWhatUsersSee) {
  EXPECT_EQ(redirectsPeers(space(0x0001000d, 0x1d).substr(0, 64)), std::nullopt);
  EXPECT_EQ(redirectsPeers(""), std::nullopt);
}

TEST(Acs, EndsWithAListThatDoesNot) {
  EXPECT_EQ(redirectsPeers(space(0x10010001)), false); // its next one is itself
  EXPECT_EQ(redirectsPeers(space(0xfff10001)), false); // past the end
}

TEST(VisibleDevices, AreThoseBeforeTheFirstThatIsNone) {
  EXPECT_THAT(parseVisibleDevices("0,1").named, ElementsAre("0", "1"));
  EXPECT_THAT(parseVisibleDevices(" GPU-12 , MIG-3").named, ElementsAre("GPU-12", "MIG-3"));
  const VisibleDevices cut = parseVisibleDevices("2,-1,3");
  EXPECT_THAT(cut.named, ElementsAre("2"));
  EXPECT_EQ(cut.wrong, "-1");
  EXPECT_THAT(parseVisibleDevices("").named, IsEmpty());
  EXPECT_EQ(parseVisibleDevices("NoDevFiles").wrong, "NoDevFiles");
}

} // namespace
} // namespace braid::doctor
