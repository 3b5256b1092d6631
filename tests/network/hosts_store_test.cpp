//===- tests/network/hosts_store_test.cpp - how hosts connect to a common store ---------------===//

#include "runtime/job/network/hosts_store.h"
#include "runtime/job/network/tcp_store.h"
#include "tests/bootstrap/bootstrap_test.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <map>

namespace braid {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

Deadline shortly() { return deadlineIn(300ms); }

/// The fake PMIx library uses a folder instead of a server.
class HostsStoreTest : public testing::Test {
protected:
  HostsStoreTest() {
    mkdtemp(folder_);
    setenv("FAKE_PMIX_FOLDER", folder_, 1);
  }
  ~HostsStoreTest() override { std::filesystem::remove_all(folder_); }

  /// Returns an address that was free a moment ago.
  static std::string freeAddress() {
    const auto listener = listenAt({"127.0.0.1", 0});
    EXPECT_TRUE(listener.isOk());
    return "tcp://" + textOf(listener->address);
  }
  Result<std::unique_ptr<HostsStore>> open(const char *source, int64_t host,
                                           Deadline deadline = soon()) const {
    setenv("FAKE_PMIX_RANK", std::to_string(host).c_str(), 1);
    const Place place{.source = source,
                      .rank = host,
                      .ranks = 2,
                      .localRanks = 1,
                      .host = host,
                      .hosts = 2,
                      .job = "job"};
    return HostsStore::open(
        place,
        [these = variables](const std::string &name) {
          const auto found = these.find(name);
          return found == these.end() ? std::nullopt : std::optional(found->second);
        },
        deadline);
  }
  Status connect(const char *source, int64_t host, Deadline deadline = soon()) const {
    auto opened = open(source, host, deadline);
    return opened ? (*opened)->connect(deadline).status() : opened.status();
  }
  /// Expects host 1 to read the value that host 0 puts, whichever host connects first.
  void expectMeeting(const char *source) {
    for (const int64_t first : {0, 1}) {
      for (const auto &file : std::filesystem::directory_iterator(folder_))
        std::filesystem::remove(file); // the files that host 0 left
      std::vector<std::unique_ptr<HostsStore>> ways;
      for (const int64_t host : {0, 1}) {
        auto opened = open(source, host);
        ASSERT_TRUE(opened) << opened.status().message();
        ways.push_back(std::move(*opened));
      }
      std::atomic<bool> isOver{false};
      onAllRanks(2, [&](int64_t host) {
        if (host != first)
          std::this_thread::sleep_for(100ms);
        auto store = ways[static_cast<size_t>(host)]->connect(soon());
        ASSERT_TRUE(store) << store.status().message();
        if (host == 0) {
          EXPECT_TRUE((*store)->put("key", "value").isOk());
          EXPECT_TRUE(eventually([&] { return isOver.load(); }));
          return;
        }
        EXPECT_TRUE(eventually([&] {
          const auto value = (*store)->poll("key");
          return value && *value == "value";
        }));
        isOver = true;
      });
    }
  }

  std::map<std::string, std::string> variables;

private:
  char folder_[64] = "/tmp/braid-test-XXXXXX";
};

TEST_F(HostsStoreTest, HostsMeetWhereTheUserSays) {
  variables["BRAID_RENDEZVOUS"] = freeAddress();
  expectMeeting("BRAID_*");
}

TEST_F(HostsStoreTest, PmixTellsWhereHostsMeet) {
  variables["BRAID_PMIX_LIBRARY"] = BRAID_FAKE_PMIX;
  expectMeeting("Open MPI");
}

TEST_F(HostsStoreTest, TorchrunHasAStore) {
  auto server = StoreServer::start({"127.0.0.1", 0}, 9);
  ASSERT_TRUE(server.isOk());
  variables = {{"MASTER_ADDR", "localhost"},
               {"MASTER_PORT", std::to_string((*server)->address().port)}};
  EXPECT_TRUE(connect("torchrun", 0).isOk());
  EXPECT_TRUE(connect("torchrun", 1).isOk());
  server->reset();
  const Status none = connect("torchrun", 0, shortly());
  EXPECT_EQ(none.code(), StatusCode::TimedOut);
  EXPECT_THAT(none.message(), HasSubstr("torch.distributed.init_process_group"));
  for (const char *port : {"port\x1b", "0"}) {
    variables["MASTER_PORT"] = port;
    EXPECT_THAT(connect("torchrun", 0).message(), StartsWith("expected MASTER_PORT to be a port"));
  }
}

TEST_F(HostsStoreTest, LaunchersWithoutAStoreSayWhatToDo) {
  for (const char *source : {"BRAID_*", "PMI", "SLURM"}) {
    const Status status = connect(source, 0);
    EXPECT_EQ(status.code(), StatusCode::Unsupported);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("srun --mpi=pmix"), HasSubstr("BRAID_RENDEZVOUS=tcp://host:port")));
  }
  variables["BRAID_RENDEZVOUS"] = "node1";
  EXPECT_EQ(connect("BRAID_*", 0).code(), StatusCode::BadInput);
}

TEST_F(HostsStoreTest, NobodyIsThere) {
  variables["BRAID_RENDEZVOUS"] = freeAddress();
  const Status status = connect("BRAID_*", 1, shortly());
  EXPECT_EQ(status.code(), StatusCode::TimedOut);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(variables["BRAID_RENDEZVOUS"].substr(6)),
                                      HasSubstr("Connection refused")));
}

TEST_F(HostsStoreTest, APortThatIsTakenIsNamed) {
  const auto taken = listenAt({"127.0.0.1", 0});
  ASSERT_TRUE(taken.isOk());
  variables["BRAID_RENDEZVOUS"] = "tcp://" + textOf(taken->address);
  EXPECT_THAT(connect("BRAID_*", 0).message(),
              HasSubstr("cannot listen on " + textOf(taken->address)));
}

// -- PMIx. --

TEST_F(HostsStoreTest, PmixThatIsMissing) {
  variables["BRAID_PMIX_LIBRARY"] = BRAID_FAKE_PMIX;
  setenv("FAKE_PMIX", "no server", 1);
  const Status noServer = connect("Open MPI", 0);
  unsetenv("FAKE_PMIX");
  variables["BRAID_PMIX_LIBRARY"] = "/no/libpmix.so.2";
  for (const Status &status : {noServer, connect("Open MPI", 0)}) {
    EXPECT_EQ(status.code(), StatusCode::Unsupported);
    EXPECT_THAT(status.message(),
                AllOf(StartsWith("PMIx: "), HasSubstr("BRAID_RENDEZVOUS=tcp://host:port")));
  }
}

TEST_F(HostsStoreTest, PmixThatFails) {
  variables["BRAID_PMIX_LIBRARY"] = BRAID_FAKE_PMIX;
  setenv("FAKE_PMIX", "lost", 1);
  EXPECT_EQ(connect("Open MPI", 1).code(), StatusCode::PeerFailed);
  setenv("FAKE_PMIX", "late", 1);
  EXPECT_EQ(connect("Open MPI", 0, deadlineIn(50ms)).message(),
            "the PMIx server did not respond in time");
  std::this_thread::sleep_for(2500ms); // the late return of the call does no harm
  unsetenv("FAKE_PMIX");
  const auto zero = open("Open MPI", 0);
  ASSERT_TRUE(zero && (*zero)->connect(soon()).isOk());
  for (const char *fault : {"number", "endless"}) {
    setenv("FAKE_PMIX", fault, 1);
    EXPECT_EQ(connect("Open MPI", 1).message(), "PMIx did not return the string that Braid stored");
  }
  unsetenv("FAKE_PMIX");
}

} // namespace
} // namespace braid
