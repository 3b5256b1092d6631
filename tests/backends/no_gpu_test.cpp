//===- tests/backends/no_gpu_test.cpp - messages about missing GPUs ---------------------------===//

#ifdef BRAID_HAS_CUDA

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_facts.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(NoGpu, TellsADriverThatIsMissingFromOneThatIsTooOld) {
  auto said = [](int driver, int runtime) {
    Status status = noGpu("no device", driver, runtime);
    EXPECT_EQ(status.code(), StatusCode::Unsupported);
    return status.message();
  };
  EXPECT_EQ(said(0, 12080), "--backend cuda: no GPU found: no NVIDIA driver is installed");
  EXPECT_EQ(said(11040, 12080), "--backend cuda: expected an NVIDIA driver that supports CUDA "
                                "12.0, got one that supports CUDA 11.4");
  EXPECT_EQ(said(12000, 12080), "--backend cuda: no GPU found (no device)");
  EXPECT_EQ(noGpu("no device", 12000, 12080, "nccl").message(),
            "--backend nccl: no GPU found (no device)");
  EXPECT_EQ(said(13000, 12080), "--backend cuda: no GPU found (no device)");
}

/// Passes on machines with and without GPUs.
TEST(NoGpu, FactsSayHowManyThereAreOrWhyNone) {
  const BackendFacts facts = cudaFacts();
  EXPECT_EQ(facts.at("devices"), std::to_string(countGpus()));
  EXPECT_EQ(facts.count("why none"), countGpus() == 0 ? 1u : 0u);
  EXPECT_EQ(facts.count("0.pci"), countGpus() > 0 ? 1u : 0u);
  EXPECT_EQ(facts.count("0.fd"), countGpus() > 0 ? 1u : 0u);
  EXPECT_EQ(facts.count("0.access.1"), countGpus() > 1 ? 1u : 0u);
  EXPECT_EQ(facts.count("cublaslt version") + facts.count("cublaslt error"), 1u);
  EXPECT_GE(std::stoi(facts.at("runtime")), 12000);
}

} // namespace
} // namespace braid

#endif
