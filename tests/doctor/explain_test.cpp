//===- tests/doctor/explain_test.cpp - which problem explains which failure -------------------===//

#include "api/doctor/check.h"
#include "tests/doctor/doctors_machine.h"

#include <gmock/gmock.h>

namespace braid::test {
namespace {

using doctor::Failure;

struct Explained {
  const char *name;
  StatusCode code;
  const char *message;
  bool isOnGpus;
  void (*makeIll)(DoctorsMachine &);
  const char *id; ///< of the line; empty: nothing explains it
};

std::string explained(const Explained &each) {
  DoctorsMachine machine;
  each.makeIll(machine);
  const auto finding = explain(Failure{each.code, each.message, each.isOnGpus}, machine.facts());
  return finding ? finding->id() : "";
}

void hide(DoctorsMachine &ill) {
  ill.variables["CUDA_VISIBLE_DEVICES"] = "";
  ill.cuda["devices"] = "0";
}

const std::vector<Explained> &failures() {
  using M = DoctorsMachine;
  using enum StatusCode;
  static const std::vector<Explained> all = {
      {"hidden", Unsupported, "--backend cuda: no GPU here (no CUDA-capable device is detected)",
       true, hide, "cuda.hidden"},
      {"blocking", Unsupported, "expected CUDA_LAUNCH_BLOCKING to be unset, got '1'", true,
       [](M &ill) { ill.variables["CUDA_LAUNCH_BLOCKING"] = "1"; }, "launch-blocking.on"},
      {"blocked", TimedOut, "rank 0 waits for rank 1", true,
       [](M &ill) { ill.variables["CUDA_LAUNCH_BLOCKING"] = "1"; }, "launch-blocking.on"},
      {"nccl", Unsupported, "NCCL: expected a library in /x, got 'no such file'", true,
       [](M &ill) {
         ill.nccl = {{"error", "NCCL: expected a library in /x"}};
         ill.variables["BRAID_NCCL_LIBRARY"] = "/x";
       },
       "nccl.wrong"},
      {"cublaslt", Unsupported, "expected cuBLASLt for the GEMMs, got 'no such file'", true,
       [](M &ill) { ill.cuda["cublaslt error"] = "expected cuBLASLt for the GEMMs"; },
       "cublaslt.missing"},
      {"addresses", Unsupported, "out of memory (cudaErrorMemoryAllocation) from cudaMalloc", true,
       [](M &ill) { ill.limits.addressBytes = uint64_t(8) << 30; },
       "address-space.little-for-gpus"},
      {"addresses_for_cuda", Unsupported, "--backend cuda: no GPU here (out of memory)", true,
       [](M &ill) {
         ill.limits.addressBytes = uint64_t(8) << 30;
         ill.cuda = {{"driver", "13000"}, {"devices", "0"}, {"why none", "out of memory"}};
       },
       "address-space.little-for-gpus"},
      {"files", Unsupported, "2 ranks as processes take 76 open files, but this process may have 9",
       false, [](M &ill) { ill.limits.openFiles = 9; }, "open-files.few"},
      {"threads", Unsupported, "cannot start a thread: expected more memory or processes", false,
       [](M &ill) {
         ill.limits.processes = 4;
         ill.status("CapEff", "0");
       },
       "processes.few"},
      {"no_access", PeerFailed,
       "peer access is not supported (cudaErrorPeerAccessUnsupported) from cudaIpcOpenMemHandle",
       true, [](M &ill) { ill.cuda["0.access.1"] = "0"; }, "peer-access.none"},
      {"shm", PeerFailed, "NCCL: unhandled system error: Error while creating shared memory", true,
       [](M &ill) {
         ill.sharedMemory = doctor::Space{1 << 20, 1 << 20};
       },
       "shared-memory.full"},
      {"few_gpus", Unsupported, "rank 2 needs a GPU of its own, but 2 are here", true,
       [](M &ill) { ill.ranks = 3; }, "job-gpus.few"},
      {"killed_for_addresses", PeerFailed, "rank 1 was killed by signal 11", true,
       [](M &ill) { ill.limits.addressBytes = uint64_t(8) << 30; },
       "address-space.little-for-gpus"},
      {"ecc", PeerFailed, "uncorrectable ECC error encountered (cudaErrorECCUncorrectable)", true,
       [](M &ill) { ill.ofDevice[0]["uncorrected_volatile"] = "1"; }, "ecc.errors"},
      {"hung", TimedOut, "rank 0 waits for rank 1", true, [](M &ill) { ill.isNvmlLate = true; },
       "nvml.hung"},
      {"busy", Unsupported, "CUDA-capable device(s) is/are busy or unavailable", true,
       [](M &ill) { ill.ofDevice[0]["compute_mode"] = "2"; }, "compute-mode.prohibited"},
      {"settings", BadInput, "expected BRAID_SHARE_GPUS to be on or off, got 'maybe'", false,
       [](M &ill) { ill.variables["BRAID_SHARE_GPUS"] = "maybe"; }, "settings.wrong"},
      {"devices", Unsupported, "BRAID_DEVICES names GPU 5, but 2 are here", true,
       [](M &ill) { ill.variables["BRAID_DEVICES"] = "0,5"; }, "devices.absent"},
      {"meeting", Unsupported, "cannot make the directory '/nowhere/braid-0': no such file", false,
       [](M &ill) { ill.variables["TMPDIR"] = "/nowhere"; }, "meeting.unwritable"},
      // What is wrong but has nothing to do with it.
      {"healthy", Unsupported, "--backend cuda: no GPU here", true, [](M &) {}, ""},
      {"note_only", TimedOut, "rank 0 waits for rank 1", true,
       [](M &ill) { ill.ofDevice[0]["clock_reasons"] = "0x40"; }, ""},
      {"other_problem", Unsupported, "NCCL: expected libnccl.so.2", true, hide, ""},
      {"on_the_host", TimedOut, "rank 0 waits for rank 1", false,
       [](M &ill) { ill.variables["CUDA_LAUNCH_BLOCKING"] = "1"; }, ""},
      {"no_gpus", TimedOut, "rank 0 waits for rank 1", true,
       [](M &ill) {
         ill.removeGpus();
         ill.variables["CUDA_LAUNCH_BLOCKING"] = "1";
       },
       ""},
      {"peer_killed", PeerFailed, "rank 1 was killed by signal 9", true, hide, ""},
  };
  return all;
}

class DoctorExplains : public ::testing::TestWithParam<Explained> {};

TEST_P(DoctorExplains, ThatFailure) { EXPECT_EQ(explained(GetParam()), GetParam().id); }

INSTANTIATE_TEST_SUITE_P(All, DoctorExplains, ::testing::ValuesIn(failures()),
                         [](const auto &each) { return std::string(each.param.name); });

} // namespace
} // namespace braid::test
