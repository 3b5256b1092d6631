//===- tests/network/pmix_store_test.cpp - PMIx, by a library that is none --------------------===//

#include "runtime/job/network/pmix_store.h"
#include "tests/network/fake_launcher.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

namespace braid {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// A folder that is the server.
class PmixStoreTest : public testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/braid-pmix-XXXXXX";
    folder = mkdtemp(name);
    setenv("FAKE_PMIX_FOLDER", folder.c_str(), 1);
    unsetenv("FAKE_PMIX");
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  static Result<std::unique_ptr<LauncherStore>> open(int64_t rank, const char *fault = "",
                                                     Deadline deadline = soon(),
                                                     const std::string &file = BRAID_FAKE_PMIX) {
    setenv("FAKE_PMIX", fault, 1);
    setenv("FAKE_PMIX_RANK", std::to_string(rank).c_str(), 1);
    auto environment = [file](const std::string &name) -> std::optional<std::string> {
      return name == "BRAID_PMIX_LIBRARY" ? std::optional(file) : std::nullopt;
    };
    return openLauncherStore({.source = "Open MPI", .rank = rank, .ranks = 2, .job = "j"},
                             environment, deadline);
  }

  std::string folder;
};

TEST_F(PmixStoreTest, GivesWhatWasPut) {
  auto putting = open(0), getting = open(1);
  ASSERT_TRUE(putting && getting) << putting.status().message() << getting.status().message();
  std::thread later([&] {
    std::this_thread::sleep_for(50ms);
    EXPECT_TRUE((*putting)->put("address", "tcp://[::1]:1", soon()).isOk());
    EXPECT_TRUE((*putting)->put("secret", std::string("\0\n =%", 5), soon()).isOk());
  });
  EXPECT_EQ(*(*getting)->get("address", soon()), "tcp://[::1]:1"); // waits
  EXPECT_EQ(*(*getting)->get("secret", soon()), std::string("\0\n =%", 5));
  EXPECT_EQ((*getting)->get("never", shortly()).status().code(), StatusCode::TimedOut);
  later.join();
  EXPECT_FALSE(std::filesystem::exists(folder + "/finalized"));
  *getting = nullptr;
  EXPECT_TRUE(std::filesystem::exists(folder + "/finalized"));
}

TEST_F(PmixStoreTest, ValuesThatAreNotOurs) {
  {
    auto store = open(0);
    ASSERT_TRUE(store);
    ASSERT_TRUE((*store)->put("a", "b", soon()).isOk());
  }
  for (const char *fault : {"number", "endless"}) {
    auto store = open(1, fault);
    ASSERT_TRUE(store);
    EXPECT_EQ((*store)->get("a", soon()).status().message(),
              "expected PMIx to have a text that Braid has put as a, got another value");
  }
}

TEST_F(PmixStoreTest, WhatIsMissing) {
  for (const Status &status :
       {open(0, "no server").status(), open(0, "", soon(), "/no/libpmix.so.2").status()}) {
    EXPECT_EQ(status.code(), StatusCode::Unsupported);
    EXPECT_THAT(status.message(), StartsWith("PMIx: "));
    EXPECT_THAT(status.message(), HasSubstr("BRAID_RENDEZVOUS=tcp://host:port"));
  }
  EXPECT_THAT(open(0, "no server").status().message(), HasSubstr("UNREACHABLE (-25)"));
  auto store = open(0, "lost");
  ASSERT_TRUE(store);
  EXPECT_EQ((*store)->put("a", "b", soon()).code(), StatusCode::PeerFailed);
  EXPECT_EQ((*store)->get("a", soon()).status().message(),
            "expected PMIx to have a, got: UNREACHABLE (-25)");
}

TEST_F(PmixStoreTest, AServerThatIsLateIsLeftBehind) {
  EXPECT_EQ(open(0, "late", shortly()).status().message(), "PMIx's server did not answer in time");
  std::this_thread::sleep_for(2500ms); // the call returns, and does no harm
  EXPECT_TRUE(open(0));
}

} // namespace
} // namespace braid
