//===- tests/bootstrap/endpoint_test.cpp - directories that only their owner sees -------------===//

#include "tests/bootstrap/bootstrap_test.h"
#include "tests/bootstrap/raw_socket.h"

#include <csignal>
#include <fstream>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace braid {
namespace {

std::string userDirectory(const TemporaryBase &base) {
  return base.path() + "/braid-" + std::to_string(geteuid());
}

RendezvousEndpoint openEndpoint(const TemporaryBase &base, const std::string &job = "") {
  Result<RendezvousEndpoint> endpoint = RendezvousEndpoint::open(base.path(), job);
  EXPECT_TRUE(endpoint.isOk()) << endpoint.status().message();
  return std::move(*endpoint);
}

Result<std::string> firstEndpoint(const std::string &base, const std::string &job,
                                  Deadline deadline) {
  auto endpoints = findRendezvousEndpoints(base, job, deadline);
  return endpoints ? Result<std::string>(endpoints->front()) : endpoints.status();
}

mode_t modeOf(const std::string &path) {
  struct stat status {};
  EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

/// Another process opens an endpoint and is killed; the path of what it leaves.
std::string leaveStaleEndpoint(const TemporaryBase &base, const std::string &job) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  FileDescriptor out(ends[0]), in(ends[1]);
  pid_t child = fork();
  if (child == 0) {
    Result<RendezvousEndpoint> endpoint = RendezvousEndpoint::open(base.path(), job);
    if (!endpoint || write(in.get(), endpoint->path().data(), endpoint->path().size()) < 0)
      _exit(1);
    pause();
  }
  char path[200];
  ssize_t got = read(out.get(), path, sizeof path);
  EXPECT_GT(got, 0);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return std::string(path, got < 0 ? 0 : static_cast<size_t>(got));
}

TEST(RendezvousEndpoint, IsPrivateAndLeavesNothing) {
  TemporaryBase base;
  size_t descriptors = countDescriptors();
  {
    RendezvousEndpoint endpoint = openEndpoint(base);
    std::filesystem::path directory = std::filesystem::path(endpoint.path()).parent_path();
    EXPECT_EQ(modeOf(userDirectory(base)), 0700u);
    EXPECT_EQ(modeOf(directory), 0700u);
    EXPECT_EQ(modeOf(endpoint.path()), 0600u);
    EXPECT_EQ(fcntl(endpoint.listener(), F_GETFD), FD_CLOEXEC);
    EXPECT_TRUE(connectRaw(endpoint.path()).isValid());
    RendezvousEndpoint moved = std::move(endpoint);
    endpoint.close();
    EXPECT_TRUE(connectRaw(moved.path()).isValid());
    moved.close();
    moved.close();
    EXPECT_FALSE(connectRaw(moved.path()).isValid());
    EXPECT_TRUE(base.entries().empty());
    openEndpoint(base, "key");
  }
  EXPECT_TRUE(base.entries().empty());
  EXPECT_EQ(countDescriptors(), descriptors);
}

TEST(RendezvousEndpoint, HasAnotherNameEachTime) {
  TemporaryBase base;
  RendezvousEndpoint first = openEndpoint(base, "key"), second = openEndpoint(base, "key");
  EXPECT_NE(first.path(), second.path());
}

TEST(RendezvousEndpoint, RefusesADirectoryThatIsNotOnlyTheUsers) {
  TemporaryBase base;
  std::string directory = userDirectory(base);
  std::string user = std::to_string(geteuid());
  std::string expected =
      "expected a directory of user " + user + " with mode 0700 at '" + directory + "', got ";
  std::string advice = "; set XDG_RUNTIME_DIR to a directory of your own, or TMPDIR where that is "
                       "not set, the same for all ranks";
  auto message = [&] {
    Status opened = RendezvousEndpoint::open(base.path(), "key").status();
    EXPECT_EQ(opened.code(), StatusCode::Unsupported);
    EXPECT_EQ(firstEndpoint(base.path(), "key", soon()).status().message(), opened.message());
    return opened.message();
  };
  std::filesystem::create_directory(base.path() + "/elsewhere");
  std::filesystem::create_symlink(base.path() + "/elsewhere", directory);
  EXPECT_EQ(message(), expected + "a link of user " + user + advice);
  std::filesystem::remove(directory);
  std::ofstream(directory) << "a file";
  EXPECT_EQ(message(), expected + "a file of user " + user + advice);
  std::filesystem::remove(directory);
  ASSERT_EQ(mkdir(directory.c_str(), 0700), 0);
  ASSERT_EQ(chmod(directory.c_str(), 0710), 0);
  EXPECT_EQ(message(), expected + "one that is open to others" + advice);
  ASSERT_EQ(chmod(directory.c_str(), 0700), 0);
  if (geteuid() != 0)
    return;
  ASSERT_EQ(chown(directory.c_str(), 12345, static_cast<gid_t>(-1)), 0);
  EXPECT_EQ(message(), expected + "one of user 12345" + advice);
}

TEST(RendezvousEndpoint, OfAJobThatNobodyLooksForHasAnotherDirectoryThen) {
  TemporaryBase base;
  std::ofstream(userDirectory(base)) << "a file";
  {
    RendezvousEndpoint endpoint = openEndpoint(base), other = openEndpoint(base);
    std::filesystem::path parent =
        std::filesystem::path(endpoint.path()).parent_path().parent_path();
    EXPECT_EQ(parent.string().rfind(userDirectory(base) + "-", 0), 0u) << parent;
    EXPECT_EQ(modeOf(parent), 0700u);
    EXPECT_TRUE(connectRaw(endpoint.path()).isValid());
    EXPECT_TRUE(connectRaw(other.path()).isValid());
  }
  EXPECT_EQ(base.entries(), std::vector{userDirectory(base)});
  std::string stale = leaveStaleEndpoint(base, "");
  ASSERT_TRUE(std::filesystem::exists(stale));
  openEndpoint(base);
  EXPECT_EQ(base.entries(), std::vector{userDirectory(base)});
}

TEST(RendezvousEndpoint, RefusesABaseThatIsTooLongForASocket) {
  TemporaryBase base;
  std::string longBase = base.path() + "/" + std::string(90, 'x');
  std::filesystem::create_directory(longBase);
  Status status = RendezvousEndpoint::open(longBase, "").status();
  EXPECT_EQ(status.code(), StatusCode::Unsupported);
  EXPECT_EQ(status.message().find("expected a path of at most 107 bytes for a socket, got "), 0u)
      << status.message();
  EXPECT_EQ(base.entries().size(), 1u);
  EXPECT_EQ(RendezvousEndpoint::open(base.path() + "/missing", "").status().code(),
            StatusCode::Unsupported);
}

TEST(RendezvousEndpoint, IsFoundByTheKeyOfItsJob) {
  TemporaryBase base;
  std::string odd = std::string("../ ä\0", 7) + std::string(300, '/');
  RendezvousEndpoint hidden = openEndpoint(base);
  RendezvousEndpoint one = openEndpoint(base, "one"), other = openEndpoint(base, odd);
  EXPECT_EQ(*firstEndpoint(base.path(), "one", soon()), one.path());
  EXPECT_EQ(*firstEndpoint(base.path(), odd, soon()), other.path());
  auto none = firstEndpoint(base.path(), "two", deadlineIn(20ms));
  EXPECT_EQ(none.status().code(), StatusCode::TimedOut);
  EXPECT_EQ(none.status().message(), "expected the first rank of job 'two' to listen in '" +
                                         userDirectory(base) + "', got nobody");
  EXPECT_EQ(firstEndpoint(base.path(), "", soon()).status().code(), StatusCode::BadInput);
}

TEST(RendezvousEndpoint, OfSeveralTheNewestIsFirst) {
  TemporaryBase base;
  std::vector<std::string> paths;
  std::deque<RendezvousEndpoint> endpoints;
  for (int i = 0; i < 5; ++i) {
    endpoints.push_back(openEndpoint(base, "key"));
    paths.insert(paths.begin(), endpoints.back().path());
    std::this_thread::sleep_for(20ms); // the file system's clock ticks
  }
  EXPECT_EQ(*findRendezvousEndpoints(base.path(), "key", soon()), paths);
}

TEST(RendezvousEndpoint, IsWaitedFor) {
  TemporaryBase base;
  std::atomic<bool> isLooking{false};
  Result<std::string> found = Status(StatusCode::Internal, "not looked for");
  std::thread finder([&] {
    isLooking = true;
    found = firstEndpoint(base.path(), "key", soon());
  });
  ASSERT_TRUE(eventually([&] { return isLooking.load(); }));
  RendezvousEndpoint endpoint = openEndpoint(base, "key");
  finder.join();
  ASSERT_TRUE(found.isOk()) << found.status().message();
  EXPECT_EQ(*found, endpoint.path());
}

TEST(RendezvousEndpoint, OfAKilledProcessIsNotFoundAndIsSwept) {
  TemporaryBase base;
  std::string stale = leaveStaleEndpoint(base, "key");
  ASSERT_TRUE(std::filesystem::exists(stale));
  EXPECT_EQ(firstEndpoint(base.path(), "key", deadlineIn(20ms)).status().code(),
            StatusCode::TimedOut);
  RendezvousEndpoint endpoint = openEndpoint(base, "key");
  EXPECT_FALSE(std::filesystem::exists(stale));
  EXPECT_EQ(*firstEndpoint(base.path(), "key", soon()), endpoint.path());
  endpoint.close();
  EXPECT_TRUE(base.entries().empty());
}

TEST(RendezvousEndpoint, SweepsNothingElse) {
  TemporaryBase base;
  RendezvousEndpoint first = openEndpoint(base, "key");
  std::string own = userDirectory(base) + "/notes";
  // As if it were a job's, but with a file that none has; and one that is being made just now.
  std::string full = userDirectory(base) + "/job-" + std::string(32, 'a');
  std::string fresh = userDirectory(base) + "/new-" + std::string(32, 'b');
  std::filesystem::create_directory(own);
  std::filesystem::create_directory(fresh);
  std::filesystem::create_directory(full);
  std::ofstream(full + "/data") << "mine";
  RendezvousEndpoint second = openEndpoint(base);
  EXPECT_TRUE(connectRaw(first.path()).isValid());
  EXPECT_TRUE(std::filesystem::exists(own));
  EXPECT_TRUE(std::filesystem::exists(fresh));
  EXPECT_TRUE(std::filesystem::exists(full + "/data"));
}

TEST(RendezvousEndpoint, SweepsWhatWasNeverFinished) {
  TemporaryBase base;
  std::filesystem::create_directory(userDirectory(base));
  chmod(userDirectory(base).c_str(), 0700);
  std::string old = userDirectory(base) + "/new-" + std::string(32, 'b');
  std::filesystem::create_directory(old);
  timespec longAgo[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, old.c_str(), longAgo, 0), 0);
  openEndpoint(base);
  EXPECT_TRUE(base.entries().empty());
}

TEST(RendezvousEndpoint, ComesAndGoesBesideOthers) {
  TemporaryBase base;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, job = "job" + std::to_string(thread)] {
      for (int i = 0; i < 100; ++i) {
        Result<RendezvousEndpoint> endpoint = RendezvousEndpoint::open(base.path(), job);
        ASSERT_TRUE(endpoint.isOk()) << endpoint.status().message();
        EXPECT_TRUE(connectRaw(endpoint->path()).isValid());
        EXPECT_EQ(*firstEndpoint(base.path(), job, soon()), endpoint->path());
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_TRUE(base.entries().empty());
}

/// Sets a variable of the environment for as long as it lives.
class Variable {
public:
  Variable(const char *name, const char *value) : name_(name) {
    if (const char *old = getenv(name))
      old_ = old;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

private:
  const char *name_;
  std::optional<std::string> old_;
};

TEST(EndpointBase, IsTheFirstThatCanBe) {
  TemporaryBase runtime;
  {
    Variable first("XDG_RUNTIME_DIR", runtime.path().c_str()), second("TMPDIR", "/var/tmp");
    EXPECT_EQ(endpointBase(), runtime.path());
  }
  {
    Variable first("XDG_RUNTIME_DIR", "/nowhere/at/all"), second("TMPDIR", "/var/tmp");
    EXPECT_EQ(endpointBase(), "/var/tmp");
  }
  Variable first("XDG_RUNTIME_DIR", nullptr), second("TMPDIR", "relative");
  EXPECT_EQ(endpointBase(), "/tmp");
}

} // namespace
} // namespace braid
