//===- tests/network/meet_hosts_test.cpp - how hosts find each other --------------------------===//

#include "runtime/job/network/meet_hosts.h"
#include "tests/network/hosts_test.h"

#include <gmock/gmock.h>

#include <map>

#include <sys/stat.h>

namespace braid {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class MeetHosts : public ::testing::Test {
protected:
  MeetHosts() {
    const std::string file = base_.path() + "/secret";
    std::ofstream(file) << "what these hosts know\n";
    chmod(file.c_str(), 0600);
    // Free a moment ago.
    variables["BRAID_RENDEZVOUS"] = "tcp://" + textOf(listenHere().address);
    variables["BRAID_SECRET_FILE"] = file;
  }
  Environment environment() const {
    return [these = variables](const std::string &name) {
      const auto found = these.find(name);
      return found == these.end() ? std::nullopt : std::optional(found->second);
    };
  }
  static Place placeOf(int64_t host, const std::string &job = "job") {
    return {.source = "BRAID_*",
            .rank = host,
            .ranks = 2,
            .localRanks = 1,
            .host = host,
            .hosts = 2,
            .job = job};
  }
  Result<MeetingOfHosts> open(int64_t host, const std::string &job = "job") const {
    return MeetingOfHosts::open(placeOf(host, job), environment(), {.timeout = 30s}, soon());
  }
  std::string refusal() const {
    const auto meeting = open(0);
    EXPECT_EQ(meeting.status().code(), StatusCode::BadInput);
    return meeting.status().message();
  }

  std::map<std::string, std::string> variables;

private:
  TemporaryBase base_;
};

std::unique_ptr<JobHost> begin(MeetingOfHosts &meeting) {
  auto place = meeting.begin(soon());
  EXPECT_TRUE(place.isOk()) << place.status().message();
  if (!place)
    return nullptr;
  EXPECT_EQ(place->address, "127.0.0.1");
  EXPECT_EQ(place->hosts, 2);
  return JobHost::with({.hosts = 2, .perHost = 1}, *place,
                       [&](JobMemory &memory) { return meeting.join(memory); });
}

/// In either order.
TEST_F(MeetHosts, HostsMeetWhereTheUserSays) {
  for (const int64_t first : {0, 1}) {
    std::vector<std::thread> threads;
    for (const int64_t host : {0, 1})
      threads.emplace_back([&, host] {
        if (host != first)
          std::this_thread::sleep_for(150ms);
        auto meeting = open(host);
        ASSERT_TRUE(meeting.isOk()) << meeting.status().message();
        auto joined = begin(*meeting);
        ASSERT_TRUE(joined);
        EXPECT_EQ(joined->memory().place().host, host);
        auto rank = joined->join(host);
        const auto parts = (*rank)->allGather("of " + std::to_string(host));
        ASSERT_TRUE(parts.isOk()) << parts.status().message();
        EXPECT_EQ(*parts, (std::vector<std::string>{"of 0", "of 1"}));
        EXPECT_TRUE((*rank)->meetAtCommit(1).isOk());
      });
    for (std::thread &thread : threads)
      thread.join();
  }
}

/// They may have one secret, and be told one port by mistake.
TEST_F(MeetHosts, JobsOfOtherNamesDoNotMeet) {
  auto zero = open(0, "one job"), other = open(1, "another job");
  ASSERT_TRUE(zero.isOk() && other.isOk());
  const auto host = begin(*zero);
  const auto place = other->begin(deadlineIn(500ms));
  ASSERT_FALSE(place.isOk());
  EXPECT_EQ(place.status().code(), StatusCode::TimedOut);
  EXPECT_FALSE(host->memory().isAborted());
}

TEST_F(MeetHosts, WhoFindsNobodySaysWhere) {
  auto other = open(1);
  ASSERT_TRUE(other.isOk());
  const auto place = other->begin(deadlineIn(400ms));
  ASSERT_FALSE(place.isOk());
  EXPECT_EQ(place.status().code(), StatusCode::TimedOut);
  const std::string at = variables["BRAID_RENDEZVOUS"].substr(6);
  EXPECT_THAT(place.status().message(),
              AllOf(HasSubstr("expected host 0 at " + at + " to let host 1 (rank 1) in"),
                    HasSubstr("Connection refused")));
}

TEST_F(MeetHosts, APortThatIsTakenIsNamed) {
  const TcpListener taken = listenHere();
  variables["BRAID_RENDEZVOUS"] = "tcp://" + textOf(taken.address);
  auto zero = open(0);
  ASSERT_TRUE(zero.isOk());
  const auto place = zero->begin(soon());
  ASSERT_FALSE(place.isOk());
  EXPECT_THAT(place.status().message(), HasSubstr("cannot listen at " + textOf(taken.address)));
}

TEST_F(MeetHosts, BothSettingsAreNeeded) {
  const auto both = variables;
  variables.erase("BRAID_SECRET_FILE");
  EXPECT_THAT(refusal(), HasSubstr("BRAID_RENDEZVOUS is set, and BRAID_SECRET_FILE is not"));
  variables = both;
  variables.erase("BRAID_RENDEZVOUS");
  EXPECT_THAT(refusal(), HasSubstr("BRAID_SECRET_FILE is set, and BRAID_RENDEZVOUS is not"));
  variables = both;
  variables["BRAID_SECRET_FILE"] += "s";
  EXPECT_THAT(refusal(), HasSubstr("No such file"));
  variables = both;
  variables["BRAID_RENDEZVOUS"] = "node1";
  EXPECT_THAT(refusal(), HasSubstr("BRAID_RENDEZVOUS"));
}

} // namespace
} // namespace braid
