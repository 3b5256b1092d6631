//===- tests/api/children_test.cpp - what is known of processes that end ----------------------===//

#include "api/launch/children.h"

#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

namespace braid {
namespace {

TEST(Children, ThisProcessIsNotEnding) { EXPECT_FALSE(isEnding(getpid())); }

/// A process may vanish between two reads about it.
TEST(Children, ProcessesMayVanishWhileTheyAreAskedAbout) {
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

TEST(Children, KnowsWhoIsStopped) {
  EXPECT_FALSE(isStopped(getpid()));
  pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0)
    for (;;)
      pause();
  EXPECT_FALSE(isStopped(pid));
  kill(pid, SIGSTOP);
  waitpid(pid, nullptr, WUNTRACED);
  EXPECT_TRUE(isStopped(pid));
  kill(pid, SIGCONT);
  waitpid(pid, nullptr, WCONTINUED);
  EXPECT_FALSE(isStopped(pid));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_FALSE(isStopped(pid));
}

} // namespace
} // namespace braid
