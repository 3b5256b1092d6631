//===- tests/machine/fake_machine.h - a simulated machine: /proc, /sys, NVML ------------------===//
#pragma once

#include "api/machine/nvml.h"

namespace braid::test {

/// A machine with a folder in place of /, and a fake NVML. The destructor removes the folder.
class FakeMachine {
public:
  FakeMachine();
  ~FakeMachine();
  FakeMachine(const FakeMachine &) = delete;

  const std::string &root() const { return root_; }
  /// Writes a file below the root, and creates its folders.
  void write(const std::string &path, const std::string &text);
  /// Reads NVML through a library, by default the fake, with answers in fake_nvml.c's format.
  Result<NvmlReport> nvml(const std::string &lines, const std::string &library = BRAID_FAKE_NVML);

private:
  std::string root_;
};

} // namespace braid::test
