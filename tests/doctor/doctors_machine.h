//===- tests/doctor/doctors_machine.h - a healthy machine that tests modify -------------------===//
#pragma once

#include "api/doctor/facts.h"
#include "tests/machine/fake_machine.h"

namespace braid::test {

inline constexpr uint64_t kMiB = uint64_t(1) << 20, kGiB = uint64_t(1) << 30;

/// A machine with two healthy GPUs that are connected by NVLink through a switch, driver 580 for
/// CUDA 13.0, and no container. A test changes some of its facts. facts() then reads all facts from
/// the folder tree, the fake NVML and the other sources.
struct DoctorsMachine {
  DoctorsMachine();

  FakeMachine folder;
  std::map<std::string, std::string> ofSystem;              ///< NVML's lines for the system
  std::vector<std::map<std::string, std::string>> ofDevice; ///< NVML's lines for each device
  BackendFacts cuda, nccl;
  doctor::Limits limits;
  std::optional<doctor::Space> sharedMemory;
  std::map<std::string, std::string> variables;
  int64_t processors = 64;
  int64_t ranks = 0;
  bool hasNvml = true, hasBackends = true;
  bool isNvmlLate = false, isCudaLate = false;

  void nameSpace(const std::string &kind, uint64_t number);
  void removeGpus();
  doctor::Facts facts();

private:
  std::string nvmlText() const;
};

} // namespace braid::test
