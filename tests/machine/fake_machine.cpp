//===- tests/machine/fake_machine.cpp - a simulated machine in a folder -----------------------===//

#include "tests/machine/fake_machine.h"

#include "api/machine/nvml.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace braid::test {

FakeMachine::FakeMachine() {
  llvm::SmallString<128> folder;
  EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("braid-machine", folder));
  root_ = folder.str().str();
}

FakeMachine::~FakeMachine() { (void)llvm::sys::fs::remove_directories(root_); }

void FakeMachine::write(const std::string &path, const std::string &text) {
  const std::string file = root_ + path;
  EXPECT_FALSE(llvm::sys::fs::create_directories(llvm::sys::path::parent_path(file)));
  EXPECT_TRUE(std::ofstream(file, std::ios::binary) << text) << file;
}

Result<NvmlReport> FakeMachine::nvml(const std::string &lines, const std::string &library) {
  write("/fake_nvml.txt", lines);
  setenv("FAKE_NVML", (root_ + "/fake_nvml.txt").c_str(), 1);
  return readNvml([library](const std::string &name) -> std::optional<std::string> {
    return name == "BRAID_NVML_LIBRARY" ? std::optional(library) : std::nullopt;
  });
}

} // namespace braid::test
