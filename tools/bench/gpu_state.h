//===- tools/bench/gpu_state.h - clocks and power of the GPUs ---------------------------------===//
#pragma once

#include <nlohmann/json.hpp>

#include <cstdio>

namespace braid::tools {

/// Asks nvidia-smi, which takes a moment; meanwhile the caller can go on.
class GpuState {
public:
  GpuState();
  ~GpuState();
  GpuState(const GpuState &) = delete;

  /// Blocks until it has answered: a list of {"index", "name", "driver", "sm_mhz", "memory_mhz",
  /// "power_w", "celsius"}, or null if there is no nvidia-smi, or no GPU.
  nlohmann::json take();

private:
  std::FILE *pipe_;
};

} // namespace braid::tools
