//===- tests/network/pmi_store_test.cpp - launchers that speak PMI, well or not ---------------===//

#include "runtime/job/network/pmi_store.h"
#include "tests/network/fake_launcher.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <mutex>

#include <fcntl.h>

namespace braid {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// How a launcher words its answers, as its sources or the launcher itself say.
struct Dialect {
  const char *name;
  const char *published, *found, *notFound; ///< `found` ends where the value goes
};
const Dialect kDialects[] = {
    {"MPICH 5.0", "cmd=publish_result rc=0",
     "cmd=lookup_result rc=0 port=", "cmd=lookup_result rc=1"},
    {"Intel MPI 2021", "cmd=publish_result info=ok rc=0 msg=success",
     "cmd=lookup_result info=ok rc=0 msg=success port=",
     "cmd=lookup_result rc=1 msg=service_not_found"},
    {"SLURM", "cmd=publish_result info=ok",
     "cmd=lookup_result info=ok port=", "cmd=lookup_result info=fail"},
};

/// A launcher, and the names that its ranks have published.
class FakePmi {
public:
  explicit FakePmi(const Dialect &dialect) : dialect_(dialect) {}
  ~FakePmi() {
    for (std::thread &thread : threads_)
      thread.join();
  }
  /// The end of a rank.
  FileDescriptor startRank() {
    Ends ends;
    threads_.emplace_back([this, number = ends.other.release()] {
      ByteStream stream(FileDescriptor(number), "the rank");
      serve(stream);
    });
    return std::move(ends.mine);
  }
  int finalized = 0; ///< to be read when all ranks are gone
  std::map<std::string, std::string> names;

private:
  void serve(ByteStream &stream) {
    while (auto line = stream.readLine(1024, soon())) {
      std::lock_guard lock(mutex_);
      (void)stream.write(answer(parsePmiLine(*line)) + "\n", soon());
    }
  }
  std::string answer(std::map<std::string, std::string> words) {
    if (words["cmd"] == "init")
      return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
    if (words["cmd"] == "publish_name") {
      names[words["service"]] = words["port"];
      return dialect_.published;
    }
    if (words["cmd"] == "lookup_name")
      return names.count(words["service"]) ? dialect_.found + names[words["service"]]
                                           : dialect_.notFound;
    finalized += words["cmd"] == "finalize";
    return "cmd=finalize_ack";
  }

  const Dialect &dialect_;
  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

auto openOver(FileDescriptor socket) {
  return PmiStore::openOver(ByteStream(std::move(socket), "the launcher"), "PMI launcher=1@2",
                            soon());
}

TEST(PmiStore, GivesWhatWasPutInEveryDialect) {
  for (const Dialect &dialect : kDialects) {
    SCOPED_TRACE(dialect.name);
    FakePmi launcher(dialect);
    auto putting = openOver(launcher.startRank()), getting = openOver(launcher.startRank());
    ASSERT_TRUE(putting && getting);
    std::thread later([&] {
      std::this_thread::sleep_for(30ms);
      EXPECT_TRUE((*putting)->put("address", "tcp://[::1]:1", soon()).isOk());
      EXPECT_TRUE((*putting)->put("secret", std::string("\0\n =%", 5), soon()).isOk());
    });
    EXPECT_EQ(*(*getting)->get("address", soon()), "tcp://[::1]:1"); // waits
    EXPECT_EQ(*(*getting)->get("secret", soon()), std::string("\0\n =%", 5));
    EXPECT_EQ((*getting)->get("never", shortly()).status().code(), StatusCode::TimedOut);
    EXPECT_EQ(*(*getting)->get("address", soon()), "tcp://[::1]:1"); // it is still of use
    later.join();
    EXPECT_THAT(launcher.names.begin()->first, testing::MatchesRegex("braid/[0-9a-f]*/address"));
  }
}

TEST(PmiStore, SaysThatItIsDone) {
  FakePmi launcher(kDialects[0]);
  { auto store = openOver(launcher.startRank()); }
  auto second = openOver(launcher.startRank());
  EXPECT_EQ(launcher.finalized, 1);
}

/// A launcher that says these lines, whatever it is asked, and then nothing more.
std::string openingWith(const std::string &lines) {
  Ends ends;
  ByteStream launcher(std::move(ends.other), "the rank");
  EXPECT_TRUE(launcher.write(lines + "cmd=finalize_ack\n", soon()).isOk());
  auto store =
      PmiStore::openOver(ByteStream(std::move(ends.mine), "the launcher"), "job", shortly());
  if (!store)
    return store.status().message();
  const Status status = (*store)->put("a", "b", shortly());
  if (!status.isOk())
    return status.message();
  auto got = (*store)->get("a", shortly());
  return got ? "got " + *got : got.status().message();
}

TEST(PmiStore, AnswersThatAreNone) {
  const std::string init = "cmd=response_to_init rc=0\n", published = "cmd=publish_result rc=0\n";
  EXPECT_EQ(openingWith(init + published + "cmd=lookup_result rc=0 port=b\n"), "got b");
  EXPECT_EQ(openingWith("cmd=response_to_init rc=-1 pmi_version=2\n"),
            "the launcher does not speak PMI-1: it answered version '2'");
  EXPECT_EQ(openingWith("HTTP/1.1 400\n"),
            "expected cmd=response_to_init of the launcher, got 'HTTP/1.1 400'");
  EXPECT_EQ(openingWith(init + "cmd=barrier_out\n"),
            "expected cmd=publish_result of the launcher, got 'cmd=barrier_out'");
  EXPECT_EQ(openingWith(init + "cmd=publish_result rc=-1 msg=command not implemented\n"),
            "the launcher publishes no names: it answered 'cmd=publish_result rc=-1 msg=command "
            "not implemented'");
  EXPECT_EQ(openingWith(init + "cmd=publish_result info=ok rc=1 msg=key_already_present\n"),
            "expected the launcher to publish a, got 'okkey_already_present'");
  EXPECT_THAT(openingWith(init + published + "cmd=lookup_result rc=0 port=%zz\n"),
              StartsWith("expected a value that Braid has published of the launcher, got '%zz'"));
  EXPECT_THAT(
      openingWith(init + published + "cmd=lookup_result port=" + std::string(300, 'x') + "\n"),
      StartsWith("expected a value that Braid has published"));
  EXPECT_THAT(openingWith(std::string(5000, 'x')),
              StartsWith("expected a line of less than 4096 bytes of the launcher, got 'xxx"));
}

TEST(PmiStore, ALauncherThatDoesNotAnswer) {
  Ends ends;
  auto store =
      PmiStore::openOver(ByteStream(std::move(ends.mine), "the launcher"), "job", shortly());
  EXPECT_EQ(store.status().message(), "the launcher did not answer in time");
}

TEST(PmiStore, ALauncherThatIsGone) {
  Ends ends;
  ends.other.reset();
  auto store = openOver(std::move(ends.mine));
  EXPECT_EQ(store.status().code(), StatusCode::PeerFailed);
}

TEST(PmiStore, WhatPmiFdMaySay) {
  auto opened = [](const std::string &value) {
    auto environment = [&](const std::string &name) -> std::optional<std::string> {
      return name == "PMI_FD" && !value.empty() ? std::optional(value) : std::nullopt;
    };
    return openLauncherStore({.source = "PMI", .job = "j"}, environment, soon()).status();
  };
  EXPECT_EQ(opened("x").message(), "expected PMI_FD to be a file descriptor, got 'x'");
  EXPECT_EQ(opened("-1").message(), "expected PMI_FD to be a file descriptor, got '-1'");
  for (const Status &status : {opened(""), opened("9999")}) {
    EXPECT_EQ(status.code(), StatusCode::Unsupported);
    EXPECT_THAT(status.message(), HasSubstr("BRAID_RENDEZVOUS=tcp://host:port and "
                                            "BRAID_SECRET_FILE"));
  }
  FakePmi launcher(kDialects[0]);
  FileDescriptor rank = launcher.startRank();
  EXPECT_TRUE(opened(std::to_string(rank.get())).isOk());
  EXPECT_GE(fcntl(rank.get(), F_GETFD), 0) << "it belongs to the process";
}

TEST(PmiStore, LinesAreWords) {
  using Words = std::map<std::string, std::string>;
  EXPECT_EQ(parsePmiLine("cmd=a x=1=2  y= z cmd=b"),
            (Words{{"cmd", "a"}, {"x", "1=2"}, {"y", ""}}));
  EXPECT_EQ(parsePmiLine(""), Words());
}

} // namespace
} // namespace braid
