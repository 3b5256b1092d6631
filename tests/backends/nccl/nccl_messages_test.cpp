//===- tests/backends/nccl/nccl_messages_test.cpp - calls into NCCL and their failures --------===//

#include "backends/nccl/nccl_messages.h"
#include "ir/failure.h"
#include "tests/backends/nccl/stand_in.h"

#include "llvm/ADT/STLExtras.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

namespace braid::test {
namespace {

using namespace nccl;
using testing::ElementsAre;
using testing::HasSubstr;

/// The control plane of one rank. The other ranks contribute the same text as this rank, or an id.
class FakeControl final : public ControlPlane {
public:
  FakeControl(int64_t rank, int64_t size) : rank_(rank), size_(size) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  Result<std::vector<std::string>> allGather(std::string mine) override {
    const bool isOfLibrary = mine == "found";
    std::vector<std::string> all(static_cast<size_t>(size_),
                                 isOfLibrary ? othersLibrary : std::string(256, 'A'));
    if (!mine.empty())
      all[static_cast<size_t>(rank_)] = mine;
    return all;
  }
  Status commit() override { return Status::ok(); }
  void abort(const Status &) override {}
  Status failure() const override { return Status::ok(); }

  std::string othersLibrary = "found";

private:
  const int64_t rank_, size_;
};

constexpr std::chrono::milliseconds kLong{20000}, kShort{50};

cudaStream_t streamOf(uintptr_t number) { return reinterpret_cast<cudaStream_t>(number); }

class NcclMessagesTest : public testing::Test {
protected:
  void SetUp() override {
    Result<Library> opened = Library::open(BRAID_STAND_IN);
    ASSERT_TRUE(opened.isOk()) << opened.status().message();
    library_ = *opened;
    void *handle = dlopen(BRAID_STAND_IN, RTLD_NOW);
    reinterpret_cast<void (*)()>(dlsym(handle, "braidForget"))();
    standIn_ = reinterpret_cast<FindStandIn>(dlsym(handle, "braidStandIn"))();
  }

  /// The default limit is so long that it is not reached even on a busy machine.
  std::unique_ptr<NcclMessages> make(int64_t rank = 0, std::chrono::milliseconds limit = kLong) {
    return std::make_unique<NcclMessages>([this] { return &library_; }, rank, Patience{limit});
  }
  Status openAll(NcclMessages &messages, int64_t rank, int64_t size, std::vector<Team> teams = {}) {
    FakeControl control(rank, size);
    return messages.openTeams(teams, control);
  }
  std::vector<std::string> takeCalls() { return std::exchange(standIn_->calls, {}); }

  Library library_;
  StandIn *standIn_ = nullptr;
  char data_[256] = {};
};

TEST_F(NcclMessagesTest, OneCommunicatorForEachTeamOfThisRank) {
  auto messages = make(1);
  ASSERT_TRUE(openAll(*messages, 1, 3, {{0, 2}, {2, 1}, {1, 0}}).isOk());
  EXPECT_THAT(takeCalls(),
              ElementsAre("ncclCommInitRankConfig 1 of 3, id 0xaa, blocking 0",
                          "ncclCommInitRankConfig 1 of 2, id 0xaa, blocking 0", "ncclGetUniqueId",
                          "ncclCommInitRankConfig 0 of 2, id 0x5a, blocking 0"));
  ASSERT_TRUE(openAll(*messages, 1, 3, {{2, 1}}).isOk());
  EXPECT_TRUE(takeCalls().empty());
  ASSERT_TRUE(messages->close(std::chrono::milliseconds(100)).isOk());
  EXPECT_EQ(standIn_->liveCommunicators, 0);
}

TEST_F(NcclMessagesTest, DescribesTheLibrary) {
  auto messages = make();
  ASSERT_TRUE(openAll(*messages, 0, 2).isOk());
  EXPECT_EQ(messages->describe(), "NCCL 2.28.9");
}

TEST_F(NcclMessagesTest, AGroupIsOneOperation) {
  auto messages = make();
  ASSERT_TRUE(openAll(*messages, 0, 3).isOk());
  (void)takeCalls();
  ASSERT_TRUE(messages
                  ->group(streamOf(7), {{Direction::Send, 1, DType::BF16, data_, 8},
                                        {Direction::Receive, 2, DType::F64, data_, 16},
                                        {Direction::Send, 2, DType::F16, data_, 6}})
                  .isOk());
  EXPECT_THAT(takeCalls(), ElementsAre("ncclGroupStart", "ncclSend 4 bf16 to 1 comm 0 stream 7",
                                       "ncclRecv 2 f64 from 2 comm 0 stream 7",
                                       "ncclSend 3 f16 to 2 comm 0 stream 7", "ncclGroupEnd"));
}

CollectiveArgs argsOf(CollectiveKind kind, llvm::ArrayRef<int64_t> team, char *data) {
  const bool reduces = kind == CollectiveKind::AllReduce || kind == CollectiveKind::Reduce ||
                       kind == CollectiveKind::ReduceScatter;
  const bool hasRoot = kind == CollectiveKind::Broadcast || kind == CollectiveKind::Reduce;
  const int64_t block = 8, all = block * static_cast<int64_t>(team.size());
  const bool isWholeSource =
      kind == CollectiveKind::ReduceScatter || kind == CollectiveKind::AllToAll;
  const bool isWholeResult = kind == CollectiveKind::AllGather || kind == CollectiveKind::AllToAll;
  return {kind,
          reduces ? std::optional(ReductionOperator::Max) : std::nullopt,
          DType::F32,
          team,
          hasRoot ? team.back() : -1,
          data,
          data,
          isWholeResult ? all : block,
          isWholeSource ? all : block};
}

/// NCCL receives positions in the team, not ranks.
TEST_F(NcclMessagesTest, EveryCollective) {
  auto messages = make(2);
  const Team team = {2, 0};
  ASSERT_TRUE(openAll(*messages, 2, 3, {team}).isOk());
  (void)takeCalls();
  for (CollectiveKind kind :
       {CollectiveKind::AllGather, CollectiveKind::ReduceScatter, CollectiveKind::AllReduce,
        CollectiveKind::Broadcast, CollectiveKind::Reduce, CollectiveKind::AllToAll})
    ASSERT_TRUE(messages->collective(streamOf(3), argsOf(kind, team, data_)).isOk());
  EXPECT_THAT(takeCalls(), ElementsAre("ncclAllGather 2 f32 comm 1 stream 3",
                                       "ncclReduceScatter 2 f32 max comm 1 stream 3",
                                       "ncclAllReduce 2 f32 max comm 1 stream 3",
                                       "ncclBroadcast 2 f32 root 1 comm 1 stream 3",
                                       "ncclReduce 2 f32 max root 1 comm 1 stream 3",
                                       "ncclGroupStart", "ncclSend 2 f32 to 0 comm 1 stream 3",
                                       "ncclRecv 2 f32 from 0 comm 1 stream 3",
                                       "ncclSend 2 f32 to 1 comm 1 stream 3",
                                       "ncclRecv 2 f32 from 1 comm 1 stream 3", "ncclGroupEnd"));
}

TEST_F(NcclMessagesTest, WhatStaysInProgressTimesOut) {
  standIn_->pollsInProgress = -1;
  auto messages = make(0, kShort);
  const Status status = openAll(*messages, 0, 2);
  EXPECT_EQ(status.code(), StatusCode::TimedOut);
  EXPECT_EQ(status.message(), "NCCL: ncclCommInitRankConfig is still in progress after 50 ms");
  EXPECT_EQ(standIn_->liveCommunicators, 0);
}

TEST_F(NcclMessagesTest, AnAbortEndsWhatIsInProgress) {
  auto messages = make();
  ASSERT_TRUE(openAll(*messages, 0, 2).isOk());
  messages->abort();
  messages->abort();
  const Status status = messages->group(streamOf(1), {{Direction::Send, 1, DType::F32, data_, 8}});
  EXPECT_EQ(status.code(), StatusCode::PeerFailed);
  EXPECT_TRUE(messages->close(std::chrono::milliseconds(1000)).isOk());
  EXPECT_EQ(standIn_->liveCommunicators, 0);
  EXPECT_TRUE(messages->error().isOk());
}

TEST_F(NcclMessagesTest, SaysWhatTheLibraryFindsInTheBackground) {
  auto messages = make();
  ASSERT_TRUE(openAll(*messages, 0, 2).isOk());
  EXPECT_TRUE(messages->error().isOk());
  standIn_->background = Code::RemoteError;
  EXPECT_EQ(messages->error().code(), StatusCode::PeerFailed);
  EXPECT_THAT(messages->error().message(), HasSubstr("error 6"));
  EXPECT_THAT(messages->error().message(), HasSubstr("the stand-in was told so"));
}

/// Injects each error at each call, immediately or later. The error must be reported, and no open
/// group and no live object may remain.
TEST_F(NcclMessagesTest, EveryErrorOfEveryCallIsNamed) {
  const Team team = {0, 1};
  const auto useAll = [&](NcclMessages &messages) {
    Status status = openAll(messages, 0, 2, {team});
    if (status.isOk())
      status = messages.group(streamOf(1), {{Direction::Send, 1, DType::F32, data_, 8},
                                            {Direction::Receive, 1, DType::F32, data_, 8}});
    for (CollectiveKind kind :
         {CollectiveKind::AllGather, CollectiveKind::ReduceScatter, CollectiveKind::AllReduce,
          CollectiveKind::Broadcast, CollectiveKind::Reduce, CollectiveKind::AllToAll})
      if (status.isOk())
        status = messages.collective(streamOf(1), argsOf(kind, team, data_));
    return status;
  };
  int tried = 0;
  for (const char *function : {"ncclGetUniqueId", "ncclCommInitRankConfig", "ncclGroupStart",
                               "ncclGroupEnd", "ncclSend", "ncclRecv", "ncclAllGather",
                               "ncclReduceScatter", "ncclAllReduce", "ncclBroadcast", "ncclReduce"})
    for (int code = 1; code <= 6; ++code)
      for (int call = 0; call < 2; ++call)
        for (bool isLater : {false, true}) {
          SetUp();
          standIn_->injected = {{function, call, static_cast<Code>(code), isLater}};
          auto messages = make();
          const Status status = useAll(*messages);
          const std::string context = fmt::format("{} {} {} {}", function, code, call, isLater);
          const auto made = static_cast<int>(std::count_if(
              standIn_->calls.begin(), standIn_->calls.end(), [&](const std::string &text) {
                return text == function || text.find(std::string(function) + " ") == 0;
              }));
          EXPECT_EQ(status.isOk(), made <= call) << context;
          if (!status.isOk()) {
            ++tried;
            EXPECT_EQ(status.code(), StatusCode::PeerFailed) << context;
            EXPECT_THAT(status.message(),
                        testing::AnyOf(HasSubstr(fmt::format("error {} from {}", code, function)),
                                       HasSubstr(fmt::format("error {} from ncclGroupEnd", code))))
                << context;
          }
          EXPECT_EQ(standIn_->openGroups, 0) << context;
          messages->abort();
          EXPECT_TRUE(messages->close(std::chrono::milliseconds(1000)).isOk()) << context;
          EXPECT_EQ(standIn_->liveCommunicators, 0) << context;
        }
  EXPECT_GT(tried, 150);
}

/// While a thread is in the library, the watchdog must not enter it, not even to query errors.
TEST_F(NcclMessagesTest, TwoThreadsAreNeverInTheLibraryAtOnce) {
  auto messages = make();
  ASSERT_TRUE(openAll(*messages, 0, 2).isOk());
  standIn_->pollsInProgress = 5;
  standIn_->isSlow = true;
  std::atomic<bool> isOver{false};
  std::thread watchdog([&] {
    while (!isOver)
      (void)messages->error();
  });
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(messages->group(streamOf(1), {{Direction::Send, 1, DType::F32, data_, 8}}).isOk());
  isOver = true;
  watchdog.join();
  EXPECT_EQ(standIn_->together, 0);
}

TEST_F(NcclMessagesTest, WhatDoesNotCloseIsAborted) {
  standIn_->injected = {{"ncclCommFinalize", 0, Code::SystemError}};
  auto messages = make();
  ASSERT_TRUE(openAll(*messages, 0, 2).isOk());
  EXPECT_TRUE(messages->close(std::chrono::milliseconds(1000)).isOk());
  EXPECT_EQ(standIn_->liveCommunicators, 0);
  EXPECT_EQ(takeCalls().back(), "ncclCommAbort comm 0");
}

// -- The library. --

/// A rank with a library must not wait for a rank without one.
TEST_F(NcclMessagesTest, AllRanksHaveALibraryOrNone) {
  FakeControl control(1, 2);
  control.othersLibrary = "NCCL: expected a library";
  auto messages = make(1);
  const Status status = messages->openTeams({}, control);
  EXPECT_EQ(status.code(), StatusCode::Unsupported);
  EXPECT_EQ(status.message(), "rank 0: NCCL: expected a library");
  EXPECT_TRUE(takeCalls().empty());
  control.othersLibrary = "found";
  EXPECT_TRUE(messages->openTeams({}, control).isOk()) << "now it has";
  NcclMessages without([] { return Result<const Library *>(Status(unsupported("none here"))); }, 0,
                       Patience{kLong});
  EXPECT_EQ(without.openTeams({}, control).message(), "none here");
}

/// The library reads the environment when it starts. A message explains why multicast is not used.
TEST_F(NcclMessagesTest, TheLibraryStartsWithoutMulticast) {
  setenv("BRAID_NCCL_LIBRARY", BRAID_STAND_IN, 1);
  unsetenv("NCCL_NVLS_ENABLE");
  ASSERT_TRUE(Library::load().isOk());
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "0");
  setenv("NCCL_NVLS_ENABLE", "2", 1);
  const Status status = keepMulticastOff();
  EXPECT_EQ(status.code(), StatusCode::Unsupported);
  EXPECT_EQ(status.message(),
            "NCCL: expected NCCL_NVLS_ENABLE=0, got '2': Braid does not use NVLink multicast, "
            "because a process that exits while holding multicast memory can make GPUs unusable");
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "2");
}

TEST_F(NcclMessagesTest, SaysWhatIsWrongWithALibrary) {
  const auto messageOf = [](const std::string &file) {
    const Result<Library> opened = Library::open(file);
    EXPECT_EQ(opened.status().code(), StatusCode::Unsupported);
    EXPECT_THAT(opened.status().message(), testing::Not(HasSubstr("\n")));
    return opened.status().message();
  };
  EXPECT_THAT(messageOf("/no/such/file.so"),
              HasSubstr("NCCL: cannot load /no/such/file.so: /no/such/file.so: cannot open"));
  const std::string half = testing::TempDir() + "half.so";
  std::ofstream(half) << "\177ELF and no more";
  EXPECT_THAT(messageOf(half), HasSubstr("NCCL: cannot load " + half));
  standIn_->version = 21805;
  EXPECT_THAT(messageOf(BRAID_STAND_IN),
              HasSubstr("NCCL: expected version 2.19.0 or later, got 2.18.5 from " BRAID_STAND_IN));
  EXPECT_THAT(messageOf(BRAID_STAND_IN_WITHOUT),
              HasSubstr(BRAID_STAND_IN_WITHOUT " lacks ncclGetUniqueId"));
  EXPECT_THAT(messageOf("libm.so.6"), HasSubstr("libm.so.6 lacks ncclGetVersion"));
}

} // namespace
} // namespace braid::test
