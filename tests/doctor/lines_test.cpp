//===- tests/doctor/lines_test.cpp - the lines of checks on faulty machines -------------------===//

#include "api/doctor/check.h"
#include "tests/doctor/doctors_machine.h"

#include "llvm/Support/FileSystem.h"

#include <gmock/gmock.h>

#include <set>

namespace braid::test {
namespace {

using doctor::Check;
using doctor::Finding;
using doctor::Severity;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ids = std::set<std::string>;

struct Case {
  const char *id;
  void (*makeIll)(DoctorsMachine &);
  /// Texts that Finding::seen must contain.
  std::vector<const char *> seen = {};
  /// The other notes and problems that are reported for this machine.
  Ids others = {};
};

const std::vector<Case> &cases() {
  using M = DoctorsMachine;
  static const std::vector<Case> all = {
      // -- Driver and libraries. --
      {"gpu.none", [](M &ill) { ill.removeGpus(); }, {"no NVIDIA GPU"}},
      {"gpu.found", [](M &) {}, {"GPU 0 (0000:18:00.0): NVIDIA H100", "GPU 1 (0000:2a:00.0)"}},
      {"gpu.hidden",
       [](M &ill) {
         ill.variables["CUDA_VISIBLE_DEVICES"] = "1";
         ill.cuda["devices"] = "1";
         ill.cuda["0.pci"] = "0000:2A:00.0";
         ill.ofDevice[0]["ecc"] = "0"; // not shown to the user
       },
       {"CUDA_VISIBLE_DEVICES", "0000:18:00.0"},
       {"cuda.fewer"}},
      {"driver.missing",
       [](M &ill) {
         (void)system(("rm -r " + ill.folder.root() + "/proc/driver").c_str());
         ill.hasNvml = false;
         ill.cuda = {{"driver", "0"}, {"runtime", "13000"}, {"devices", "0"}, {"why none", "no"}};
       },
       {"0000:18:00.0, 0000:2a:00.0", "no NVIDIA driver"},
       {"cuda.none", "nvml.missing"}},
      {"driver.mismatch",
       [](M &ill) { ill.ofSystem["init"] = "18"; },
       {"580.95.05"},
       {"nvml.missing"}},
      {"driver.no-devices",
       [](M &ill) {
         for (const char *name : {"/dev/nvidia0", "/dev/nvidia1"})
           (void)remove((ill.folder.root() + name).c_str());
         ill.hasNvml = false;
       },
       {"/dev/nvidia0 does not exist"},
       {"nvml.missing"}},
      {"driver.too-old",
       [](M &ill) { ill.cuda["driver"] = "12040"; },
       {"supports CUDA 12.4", "needs CUDA 13.0"}},
      {"driver.found", [](M &) {}, {"580.95.05, which supports CUDA 13.0"}},
      {"nvml.found", [](M &) {}, {BRAID_FAKE_NVML}},
      {"nvml.missing", [](M &ill) { ill.hasNvml = false; }, {"/nowhere/libnvidia-ml.so.1"}},
      {"nvml.hung", [](M &ill) { ill.isNvmlLate = true; }, {"within 30 ms"}},
      {"cuda.not-built", [](M &ill) { ill.hasBackends = false; }},
      {"cuda.hidden",
       [](M &ill) {
         ill.variables["CUDA_VISIBLE_DEVICES"] = "";
         ill.cuda = {{"driver", "13000"}, {"runtime", "13000"}, {"devices", "0"}};
       },
       {"is ''"}},
      {"cuda.unknown",
       [](M &ill) {
         ill.variables["CUDA_VISIBLE_DEVICES"] = "GPU-9999-0000";
         ill.cuda = {{"driver", "13000"}, {"runtime", "13000"}, {"devices", "0"}};
       },
       {"'GPU-9999-0000', but CUDA finds no such GPU"}},
      {"cuda.fewer",
       [](M &ill) {
         ill.variables["CUDA_VISIBLE_DEVICES"] = "1";
         ill.cuda["devices"] = "1";
       },
       {"'1'", "1 of 2"}},
      {"cuda.none",
       [](M &ill) {
         ill.cuda = {{"driver", "13000"},
                     {"runtime", "13000"},
                     {"devices", "0"},
                     {"why none", "system not yet initialized"}};
       },
       {"CUDA sees no GPU: system not yet initialized"}},
      {"cuda.hung", [](M &ill) { ill.isCudaLate = true; }, {"within 30 ms"}},
      {"cuda.found", [](M &) {}, {"CUDA 13.0, visible GPUs: 2"}},
      {"cublaslt.found", [](M &) {}, {"130100", "/usr/lib/libcublasLt.so.13"}},
      {"cublaslt.missing",
       [](M &ill) { ill.cuda["cublaslt error"] = "cannot load cuBLASLt for the GEMMs: x"; },
       {"cannot load cuBLASLt"}},
      {"nccl.found", [](M &) {}, {"NCCL 2.31.2", "/usr/lib/libnccl.so.2"}},
      {"nccl.missing",
       [](M &ill) {
         ill.nccl = {{"error", "NCCL: expected libnccl.so.2"}};
       },
       {"NCCL: expected libnccl.so.2"}},
      {"nccl.wrong",
       [](M &ill) {
         ill.nccl = {{"error", "NCCL: cannot load /x"}};
         ill.variables["BRAID_NCCL_LIBRARY"] = "/x";
       },
       {"NCCL: cannot load /x"}},
      // -- Devices. --
      {"compute-mode.prohibited",
       [](M &ill) { ill.ofDevice[1]["compute_mode"] = "2"; },
       {"GPU 1 "}},
      {"compute-mode.not-shared",
       [](M &ill) {
         ill.ofDevice[0]["compute_mode"] = "3";
         ill.variables["BRAID_SHARE_GPUS"] = "on";
       },
       {"GPU 0 "},
       {"job-gpus.shared"}},
      {"compute-mode.exclusive", [](M &ill) { ill.ofDevice[0]["compute_mode"] = "3"; }, {"GPU 0 "}},
      {"mig.on", [](M &ill) { ill.ofDevice[1]["mig"] = "1"; }, {"GPU 1 "}},
      {"sharing.no-ipc", [](M &ill) { ill.cuda["1.ipc"] = "0"; }, {"device 1"}},
      {"sharing.no-descriptors", [](M &ill) { ill.cuda["0.fd"] = "0"; }, {"device 0"}},
      {"sharing.fine", [](M &) {}, {"2 GPUs"}},
      {"power.capped",
       [](M &ill) { ill.ofDevice[0]["enforced_power_limit"] = "400000"; },
       {"GPU 0 ", "limited to 400 W; the default is 700 W"}},
      {"clocks.throttled",
       [](M &ill) {
         ill.ofDevice[1]["clock_reasons"] = "0x44";
         ill.ofDevice[1]["sm_clock"] = "990";
       },
       {"GPU 1 ", "990 of 1980 MHz", "the power cap, hardware thermal throttling"}},
      {"clocks.set", [](M &ill) { ill.ofDevice[0]["clock_reasons"] = "2"; }, {"GPU 0 ", "345 MHz"}},
      {"ecc.off", [](M &ill) { ill.ofDevice[0]["ecc"] = "0"; }, {"GPU 0 "}},
      {"ecc.errors",
       [](M &ill) { ill.ofDevice[0]["uncorrected_volatile"] = "3"; },
       {"GPU 0 ", "3 uncorrectable"}},
      {"ecc.errors-before",
       [](M &ill) { ill.ofDevice[1]["uncorrected_aggregate"] = "4"; },
       {"GPU 1 ", "4 uncorrectable"}},
      {"nvlink.down",
       [](M &ill) { ill.ofDevice[0]["link2.up"] = "0"; },
       {"1 of 4 NVLinks of GPU 0 "}},
      {"nvlink.errors",
       [](M &ill) {
         ill.ofDevice[1]["link3.replay"] = "5";
         ill.ofDevice[1]["link3.crc_data"] = "7";
       },
       {"NVLink 3 of GPU 1 ", "has had 12 errors"}},
      {"pcie.narrow", [](M &ill) { ill.ofDevice[0]["pcie_width"] = "8"; }, {"GPU 0 ", "x8", "x16"}},
      // -- Pairs. --
      {"peer-access.none",
       [](M &ill) {
         ill.cuda["1.access.0"] = "0";
         ill.ofDevice[1]["peer0.write"] = "1";
       },
       {"GPU 0 ", "GPU 1 ", "the chipset does not support peer access"}},
      {"peer-access.all", [](M &) {}, {"pairs: 1"}},
      {"iommu.translates",
       [](M &ill) {
         ill.folder.write("/sys/bus/pci/devices/0000:18:00.0/iommu_group/type", "DMA-FQ\n");
       },
       {"0000:18:00.0"}},
      // -- The process. --
      {"address-space.little-for-gpus",
       [](M &ill) { ill.limits.addressBytes = 160 * kGiB - 1; },
       {"is limited to 160 GiB", "160 GiB or more"}},
      {"address-space.little",
       [](M &ill) {
         ill.removeGpus();
         ill.ranks = 1;
         ill.limits.addressBytes = 575 * kMiB;
       },
       {"is limited to 575 MiB", "needs 576 MiB or more for 1 rank"}},
      {"address-space.limited",
       [](M &ill) { ill.limits.addressBytes = 1000 * kGiB; },
       {"1000 GiB"}},
      {"open-files.few",
       [](M &ill) { ill.limits.openFiles = 100; },
       {"may open 100 files", "2 ranks need 256"}},
      {"open-files.fine", [](M &) {}, {"65536"}},
      {"shared-memory.missing", [](M &ill) { ill.sharedMemory.reset(); }, {"/dev/shm"}},
      {"shared-memory.full",
       [](M &ill) {
         ill.sharedMemory = doctor::Space{64 * kMiB, kMiB};
       },
       {"64 MiB, with 1 MiB free"}},
      {"shared-memory.small",
       [](M &ill) {
         ill.sharedMemory = doctor::Space{64 * kMiB, 64 * kMiB};
       },
       {"64 MiB"}},
      {"shared-memory.fine", [](M &) {}, {"64 GiB"}},
      {"pid-namespace.first", [](M &) {}},
      {"pid-namespace.own", [](M &ill) { ill.nameSpace("pid", 4026532345); }},
      {"ipc-namespace.first", [](M &) {}},
      {"ipc-namespace.own", [](M &ill) { ill.nameSpace("ipc", 4026532346); }},
      {"processors.few",
       [](M &ill) {
         ill.processors = 1;
         ill.ranks = 2;
       },
       {"2 ranks share 1 processors"}},
      {"processors.fine", [](M &) {}, {"64 processors"}},
      // -- The environment. --
      {"settings.wrong",
       [](M &ill) { ill.variables["BRAID_SHARE_GPUS"] = "maybe"; },
       {"BRAID_SHARE_GPUS", "'maybe'"}},
      {"launch-blocking.on", [](M &ill) { ill.variables["CUDA_LAUNCH_BLOCKING"] = "1"; }, {"'1'"}},
      {"hardware-queues.few",
       [](M &ill) { ill.variables["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"; },
       {"'1'"}},
      {"nccl-variables.set",
       [](M &ill) {
         ill.variables["NCCL_P2P_DISABLE"] = "1";
         ill.variables["NCCL_DEBUG"] = "INFO";
       },
       {"NCCL_P2P_DISABLE=1"}},
      {"cache.fine", [](M &) {}, {"/home/.cache/braid"}},
      {"cache.none", [](M &ill) { ill.variables["BRAID_CACHE_DIR"] = "none"; }},
      // -- The job. --
      {"job-gpus.few", [](M &ill) { ill.ranks = 3; }, {"3 ranks", "see only 2"}},
      {"job-gpus.shared", [](M &ill) { ill.variables["BRAID_SHARE_GPUS"] = "on"; }},
  };
  return all;
}

std::string idOf(const Finding &finding) { return finding.check + "." + finding.line; }

Ids troublesOf(const std::vector<Finding> &findings) {
  Ids ids;
  for (const Finding &finding : findings)
    if (finding.severity != Severity::Ok)
      ids.insert(idOf(finding));
  return ids;
}

TEST(DoctorLines, EveryCheckHasACase) {
  Ids checks, lines;
  for (const Case &each : cases()) {
    checks.insert(llvm::StringRef(each.id).split('.').first.str());
    EXPECT_TRUE(lines.insert(each.id).second) << each.id << " is there twice";
  }
  for (const auto &part :
       {doctor::gpuChecks(), doctor::processChecks(), doctor::environmentChecks()})
    for (const Check &check : part)
      EXPECT_EQ(checks.erase(check.name), 1u) << "no case is of " << check.name;
  EXPECT_THAT(checks, IsEmpty());
}

TEST(DoctorLines, AHealthyMachineHasNoTrouble) {
  DoctorsMachine machine;
  EXPECT_THAT(troublesOf(runChecks(machine.facts())), IsEmpty());
}

/// Limits the address space to `bytes`. Returns the line of the check `address-space`, or an empty
/// string if there is none.
std::string lineOfAddresses(DoctorsMachine &machine, uint64_t bytes) {
  machine.limits.addressBytes = bytes;
  for (const Finding &finding : runChecks(machine.facts()))
    if (finding.check == "address-space")
      return finding.line;
  return "";
}

TEST(DoctorLines, AddressesOfGpusAreThoseOfTheirMemory) {
  DoctorsMachine machine;
  EXPECT_EQ(lineOfAddresses(machine, 160 * kGiB), "limited");
  machine.variables["CUDA_VISIBLE_DEVICES"] = "1"; // no addresses are reserved for the hidden GPU
  machine.cuda["devices"] = "1";
  machine.cuda["0.pci"] = "0000:2A:00.0";
  EXPECT_EQ(lineOfAddresses(machine, 80 * kGiB), "limited");
  EXPECT_EQ(lineOfAddresses(machine, 80 * kGiB - 1), "little-for-gpus");
  for (auto &device : machine.ofDevice)
    device.erase("memory");
  EXPECT_EQ(lineOfAddresses(machine, 16 * kGiB), "limited");
  EXPECT_EQ(lineOfAddresses(machine, 16 * kGiB - 1), "little-for-gpus");
  machine.hasNvml = false;
  EXPECT_EQ(lineOfAddresses(machine, 16 * kGiB - 1), "little-for-gpus");
}

TEST(DoctorLines, AddressesOfRanksGrowWithTheThreadsOfAProcess) {
  DoctorsMachine machine;
  machine.removeGpus();
  EXPECT_EQ(lineOfAddresses(machine, 576 * kMiB), "limited");
  machine.ranks = 1;
  EXPECT_EQ(lineOfAddresses(machine, 576 * kMiB - 1), "little");
  machine.ranks = 2;
  EXPECT_EQ(lineOfAddresses(machine, 576 * kMiB), "little");
  EXPECT_EQ(lineOfAddresses(machine, 640 * kMiB), "limited");
}

class DoctorLine : public ::testing::TestWithParam<Case> {};

TEST_P(DoctorLine, IsPrinted) {
  DoctorsMachine machine;
  GetParam().makeIll(machine);
  const std::vector<Finding> findings = runChecks(machine.facts());
  const auto found = llvm::find_if(
      findings, [](const Finding &finding) { return idOf(finding) == GetParam().id; });
  ASSERT_NE(found, findings.end());
  for (const char *words : GetParam().seen)
    EXPECT_THAT(found->seen, HasSubstr(words));
  EXPECT_EQ(found->advice.empty(), found->severity == Severity::Ok);
  // Only the checks in `others` may report further problems.
  Ids expected = GetParam().others;
  if (found->severity != Severity::Ok)
    expected.insert(idOf(*found));
  EXPECT_EQ(troublesOf(findings), expected);
}

INSTANTIATE_TEST_SUITE_P(All, DoctorLine, ::testing::ValuesIn(cases()), [](const auto &each) {
  std::string name = each.param.id;
  for (char &c : name)
    if (c == '.' || c == '-')
      c = '_';
  return name;
});

} // namespace
} // namespace braid::test
