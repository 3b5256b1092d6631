//===- tests/runtime/memory_limit_test.cpp - available memory under each limit ----------------===//

#include "runtime/memory_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <sys/resource.h>

namespace braid {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// A folder that is used instead of /sys/fs/cgroup.
class MemoryGroups : public testing::Test {
protected:
  MemoryGroups() : root_(testing::TempDir() + "braid_groups") { fs::remove_all(root_); }
  ~MemoryGroups() override { fs::remove_all(root_); }

  void write(const std::string &path, const std::string &text) {
    fs::create_directories((fs::path(root_) / path).parent_path());
    std::ofstream(fs::path(root_) / path) << text << "\n";
  }
  std::optional<uint64_t> left(const std::string &membership) {
    return memoryLeftInGroups(membership, root_);
  }

  std::string root_;
};

TEST_F(MemoryGroups, LimitsOfAllParentsApply) {
  write("job/rank/memory.max", "max");
  write("job/rank/memory.current", "100");
  EXPECT_EQ(left("0::/job/rank\n"), std::nullopt);
  write("job/memory.max", "5000");
  write("job/memory.current", "3000");
  EXPECT_EQ(left("0::/job/rank\n"), 2000);
  write("job/rank/memory.max", "1000");
  EXPECT_EQ(left("0::/job/rank\n"), 900);
  write("job/rank/memory.current", "1200");
  EXPECT_EQ(left("0::/job/rank\n"), 0);
}

/// In a container, the container's own cgroup appears as the root, whatever its name on the host
/// is.
TEST_F(MemoryGroups, PathThatOnlyTheHostSees) {
  write("memory.max", "8000");
  write("memory.current", "3000");
  EXPECT_EQ(left("9:name=systemd:/job\n0::/docker/0123\n"), 5000);
}

TEST_F(MemoryGroups, PageCacheCanBeDropped) {
  write("memory.max", "8000");
  write("memory.current", "7000");
  write("memory.stat", "anon 500\ninactive_file 6000");
  EXPECT_EQ(left("0::/\n"), 7000);
}

TEST(MemoryLimit, WhatIsAvailableIsEnoughForLittle) {
  EXPECT_GT(availableMemory(), 1u << 20);
  EXPECT_TRUE(expectMemory(1, "a byte takes").isOk());
}

TEST(MemoryLimit, SaysWhichLimit) {
  Status status = expectMemory(1e18, "all of it takes", "take less");
  EXPECT_EQ(status.code(), StatusCode::Unsupported);
  EXPECT_THAT(status.message(), HasSubstr("all of it takes about 931322575 GiB of memory, but "));
  EXPECT_THAT(status.message(), HasSubstr(" is available ("));
  EXPECT_THAT(status.message(), HasSubstr("); take less"));
}

/// Limits the process's address space to `bytes` bytes until this object is destroyed.
class AddressLimit {
public:
  explicit AddressLimit(rlim_t bytes) {
    getrlimit(RLIMIT_AS, &before_);
    rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressLimit() { setrlimit(RLIMIT_AS, &before_); }

private:
  rlimit before_{};
};

TEST(MemoryLimit, AddressesAreALimitOfTheirOwn) {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  AddressLimit limit(pages * 4096 + (64u << 20));
  EXPECT_LE(availableMemory(), 64u << 20);
  EXPECT_TRUE(expectMemory(16e6, "a little takes").isOk());
  Status status = expectMemory({1e6, 1e9}, "ten threads take");
  EXPECT_EQ(status.code(), StatusCode::Unsupported);
  EXPECT_THAT(status.message(), HasSubstr("ten threads take about 954 MiB of memory addresses"));
  EXPECT_THAT(status.message(), HasSubstr("(ulimit -v)"));
}

TEST(MemoryLimit, Sizes) {
  EXPECT_EQ(strOfBytes(199.6 * 1024 * 1024), "200 MiB");
  EXPECT_EQ(strOfBytes(2.61 * (1 << 30)), "2.6 GiB");
  EXPECT_EQ(strOfBytes(123.4 * (1 << 30)), "123 GiB");
}

} // namespace
} // namespace braid
