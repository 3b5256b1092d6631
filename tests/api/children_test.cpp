//===- tests/api/children_test.cpp - queries about processes that are ending ------------------===//

#include "api/launch/children.h"

#include <gtest/gtest.h>

#include <thread>

#include <sys/wait.h>
#include <unistd.h>

namespace braid {
namespace {

/// A process may disappear between two reads of its /proc entries.
TEST(Children, ProcessesMayVanishWhileTheyAreAskedAbout) {
  EXPECT_FALSE(isEnding(getpid()));
  for (int i = 0; i < 500; ++i) {
    pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0)
      _exit(0);
    std::thread reaper([pid] { waitpid(pid, nullptr, 0); });
    while (!isEnding(pid)) {
    }
    for (int again = 0; again < 20; ++again)
      EXPECT_TRUE(isEnding(pid));
    reaper.join();
    EXPECT_TRUE(isEnding(pid));
  }
}

} // namespace
} // namespace braid
