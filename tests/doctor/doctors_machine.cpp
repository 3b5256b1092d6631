//===- tests/doctor/doctors_machine.cpp - a healthy machine that tests modify -----------------===//

#include "tests/doctor/doctors_machine.h"

#include "llvm/Support/FileSystem.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

namespace braid::test {
namespace {

std::map<std::string, std::string> healthyDevice(int number) {
  std::map<std::string, std::string> lines = {
      {"name", "NVIDIA H100 80GB HBM3"},
      {"uuid", fmt::format("GPU-{}{}{}{}-0000", number, number, number, number)},
      {"pci", number == 0 ? "00000000:18:00.0" : "00000000:2A:00.0"},
      {"memory", "85899345920"}, // 80 GiB
      {"mig", "0"},
      {"compute_mode", "0"},
      {"enforced_power_limit", "700000"},
      {"default_power_limit", "700000"},
      {"sm_clock", "345"},
      {"most_sm_clock", "1980"},
      {"clock_reasons", "1"}, // idle
      {"ecc", "1"},
      {"uncorrected_volatile", "0"},
      {"uncorrected_aggregate", "0"},
      {"pcie_width", "16"},
      {"most_pcie_generation", "5"},
      {"most_pcie_width", "16"},
      {"link_mbps", "26562"},
  };
  for (int link = 0; link < 4; ++link) {
    const std::string key = fmt::format("link{}.", link);
    lines.insert({{key + "up", "1"},
                  {key + "remote_type", "2"},
                  {key + "replay", "0"},
                  {key + "recovery", "0"},
                  {key + "crc_flit", "0"},
                  {key + "crc_data", "0"}});
  }
  const std::string peer = fmt::format("peer{}.", 1 - number);
  lines.insert({{peer + "read", "0"}, {peer + "write", "0"}, {peer + "nvlink", "0"}});
  return lines;
}

} // namespace

DoctorsMachine::DoctorsMachine()
    : ofSystem({{"driver", "580.95.05"}, {"cuda", "13000"}}),
      ofDevice({healthyDevice(0), healthyDevice(1)}),
      cuda({{"driver", "13000"},
            {"runtime", "13000"},
            {"devices", "2"},
            {"0.pci", "0000:18:00.0"},
            {"1.pci", "0000:2A:00.0"},
            {"0.ipc", "1"},
            {"1.ipc", "1"},
            {"0.vmm", "1"},
            {"1.vmm", "1"},
            {"0.fd", "1"},
            {"1.fd", "1"},
            {"0.access.1", "1"},
            {"1.access.0", "1"},
            {"cublaslt file", "/usr/lib/libcublasLt.so.13"},
            {"cublaslt version", "130100"}}),
      nccl({{"version", "2.31.2"}, {"file", "/usr/lib/libnccl.so.2"}}),
      limits({.openFiles = 65536, .addressBytes = {}}),
      sharedMemory(doctor::Space{64 * kGiB, 64 * kGiB}) {
  for (const char *address : {"0000:18:00.0", "0000:2a:00.0"}) {
    const std::string device = fmt::format("/sys/bus/pci/devices/{}", address);
    folder.write(device + "/vendor", "0x10de\n");
    folder.write(device + "/class", "0x030200\n");
  }
  folder.write("/proc/driver/nvidia/version", "NVRM version: Kernel Module  580.95.05\nGCC: 13\n");
  folder.write("/dev/nvidia0", "");
  folder.write("/dev/nvidia1", "");
  folder.write("/dev/nvidiactl", "");
  variables = {{"HOME", folder.root() + "/home"}};
  nameSpace("pid", 4026531836);
  nameSpace("ipc", 4026531839);
}

void DoctorsMachine::nameSpace(const std::string &kind, uint64_t number) {
  const std::string file = folder.root() + "/proc/self/ns/" + kind;
  folder.write("/proc/self/ns/there", "");
  (void)llvm::sys::fs::remove(file);
  EXPECT_FALSE(llvm::sys::fs::create_link(fmt::format("{}:[{}]", kind, number), file));
}

void DoctorsMachine::removeGpus() {
  for (const char *path : {"/sys/bus", "/proc/driver", "/dev"})
    (void)llvm::sys::fs::remove_directories(folder.root() + path);
  hasNvml = false;
  cuda = {{"driver", "0"}, {"runtime", "13000"}, {"devices", "0"}, {"why none", "no driver"}};
}

std::string DoctorsMachine::nvmlText() const {
  std::string text;
  for (const auto &[key, value] : ofSystem)
    text += fmt::format("{} {}\n", key, value);
  for (const auto &device : ofDevice) {
    text += "device\n";
    for (const auto &[key, value] : device)
      text += fmt::format("{} {}\n", key, value);
  }
  return text;
}

doctor::Facts DoctorsMachine::facts() {
  doctor::Sources sources;
  sources.root = folder.root();
  sources.variables = variables;
  sources.limits = limits;
  sources.processors = processors;
  sources.patience = std::chrono::milliseconds(isNvmlLate || isCudaLate ? 30 : 10000);
  sources.sharedMemory = sharedMemory;
  // Threads that respond late outlive this object.
  const auto late = std::chrono::milliseconds(2000);
  const Result<NvmlReport> report =
      hasNvml ? folder.nvml(nvmlText()) : folder.nvml("", "/nowhere/libnvidia-ml.so.1");
  sources.nvml = [report, isLate = isNvmlLate, late] {
    std::this_thread::sleep_for(isLate ? late : 0 * late);
    return report;
  };
  if (hasBackends) {
    sources.backends["cuda"] = [known = cuda, isLate = isCudaLate, late] {
      std::this_thread::sleep_for(isLate ? late : 0 * late);
      return Result(known);
    };
    sources.backends["nccl"] = [known = nccl] { return Result(known); };
  }
  doctor::Facts facts = readFacts(sources);
  facts.ranks = ranks;
  return facts;
}

} // namespace braid::test
