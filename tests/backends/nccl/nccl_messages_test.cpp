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

/// The control plane of one rank. The other ranks' contributions equal this one's or are an id.
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
  Status openAll(NcclMessages &messages, int64_t rank, int64_t size, std::vector<Team> teams = {},
                 TransferMode mode = {}) {
    FakeControl control(rank, size);
    return messages.openTeams(teams, control, mode);
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

TEST_F(NcclMessagesTest, AGroupIsOneOperation) {
  auto messages = make();
  ASSERT_TRUE(openAll(*messages, 0, 3).isOk());
  (void)takeCalls();
  ASSERT_TRUE(messages
                  ->group(streamOf(7),
                          {{Direction::Send, 1, DType::BF16, data_, 8},
                           {Direction::Receive, 2, DType::F64, data_, 16},
                           {Direction::Send, 2, DType::F16, data_, 6}},
                          {})
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

/// NCCL gets positions in the team, not ranks.
TEST_F(NcclMessagesTest, EveryCollective) {
  auto messages = make(2);
  const Team team = {2, 0};
  ASSERT_TRUE(openAll(*messages, 2, 3, {team}).isOk());
  (void)takeCalls();
  for (CollectiveKind kind :
       {CollectiveKind::AllGather, CollectiveKind::ReduceScatter, CollectiveKind::AllReduce,
        CollectiveKind::Broadcast, CollectiveKind::Reduce, CollectiveKind::AllToAll})
    ASSERT_TRUE(messages->collective(streamOf(3), argsOf(kind, team, data_), {}).isOk());
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
  const Status status =
      messages->group(streamOf(1), {{Direction::Send, 1, DType::F32, data_, 8}}, {});
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

/// Injects each error at each call, immediately or later: it must be reported, with no group left
/// open and no object left alive.
TEST_F(NcclMessagesTest, EveryErrorOfEveryCallIsNamed) {
  const Team team = {0, 1};
  const auto useAll = [&](NcclMessages &messages) {
    Status status = openAll(messages, 0, 2, {team});
    if (status.isOk())
      status = messages.group(streamOf(1),
                              {{Direction::Send, 1, DType::F32, data_, 8},
                               {Direction::Receive, 1, DType::F32, data_, 8}},
                              {});
    for (CollectiveKind kind :
         {CollectiveKind::AllGather, CollectiveKind::ReduceScatter, CollectiveKind::AllReduce,
          CollectiveKind::Broadcast, CollectiveKind::Reduce, CollectiveKind::AllToAll})
      if (status.isOk())
        status = messages.collective(streamOf(1), argsOf(kind, team, data_), {});
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

/// The watchdog must not enter the library either, not even to ask for errors.
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
    EXPECT_TRUE(
        messages->group(streamOf(1), {{Direction::Send, 1, DType::F32, data_, 8}}, {}).isOk());
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

/// Windows use the communicator of all ranks, opened if needed. closePeers() comes first.
TEST_F(NcclMessagesTest, MemoryIsWindowsOfAllRanks) {
  auto messages = make(1);
  FakeControl control(1, 3);
  standIn_->pollsInProgress = 3; // the call returns success before the window exists
  Result<std::unique_ptr<SymmetricMemory>> memory =
      messages->symmetricMemory(MemoryFrom::Nccl, control);
  ASSERT_TRUE(memory.isOk()) << memory.status().message();
  EXPECT_TRUE((*memory)->isCollective());
  (void)takeCalls();
  Result<void *> first = (*memory)->allocate(4096), second = (*memory)->allocate(8192);
  ASSERT_TRUE(first.isOk() && second.isOk());
  EXPECT_THAT(takeCalls(),
              ElementsAre("ncclMemAlloc 4096", "ncclCommWindowRegister 4096 flags 1 comm 0",
                          "ncclMemAlloc 8192", "ncclCommWindowRegister 8192 flags 1 comm 0"));
  EXPECT_EQ(*(*memory)->exportMemory(*second), "1");
  EXPECT_EQ(*(*memory)->open(2, "1"), reinterpret_cast<void *>(2002));
  EXPECT_EQ((*memory)->open(2, "2").status().message(),
            "expected an allocation of memory 'nccl' of rank 2, got '2'");
  (void)takeCalls();
  standIn_->pollsInProgress = 0;
  (*memory)->closePeers();
  ASSERT_TRUE(messages->close(std::chrono::milliseconds(100)).isOk());
  *memory = nullptr;
  EXPECT_THAT(takeCalls(),
              ElementsAre("ncclCommWindowDeregister window 1 comm 0",
                          "ncclCommWindowDeregister window 2 comm 0", "ncclCommFinalize comm 0",
                          "ncclCommDestroy comm 0", "ncclMemFree", "ncclMemFree"));
  EXPECT_EQ(standIn_->liveMemory, 0);
}

TEST_F(NcclMessagesTest, MemoryThatCannotBeHadSaysWhy) {
  FakeControl control(0, 2);
  auto allocated = [&](StandIn::Injected error, bool givesWindows = true) {
    SetUp();
    auto messages = make();
    standIn_->givesWindows = givesWindows;
    standIn_->injected = {std::move(error)};
    Result<std::unique_ptr<SymmetricMemory>> memory =
        messages->symmetricMemory(MemoryFrom::Nccl, control);
    EXPECT_TRUE(memory.isOk());
    return (*memory)->allocate(4096).status();
  };
  Status status = allocated({"ncclMemAlloc", 0, Code::UnhandledCudaError});
  EXPECT_EQ(status.code(), StatusCode::Unsupported);
  EXPECT_EQ(status.message(), "memory 'nccl': error 1 from ncclMemAlloc of 4096 bytes");
  status = allocated({"ncclCommWindowRegister", 0, Code::SystemError});
  EXPECT_EQ(status.code(), StatusCode::PeerFailed);
  EXPECT_THAT(status.message(), HasSubstr("error 2 from ncclCommWindowRegister"));
  status = allocated({"ncclCommWindowRegister", 0, Code::RemoteError, /*isLater=*/true});
  EXPECT_THAT(status.message(), HasSubstr("error 6 from ncclCommWindowRegister"));
  status = allocated({}, /*givesWindows=*/false);
  EXPECT_EQ(status.message(), "memory 'nccl': NCCL 2.28.9 registers no windows here");
}

/// Messages only need windows. NCCL added peers' addresses later and registered buffers earlier.
TEST_F(NcclMessagesTest, MemoryThatAVersionLacksIsNamed) {
  FakeControl control(0, 2);
  library_.call.GetPeerDevicePointer = nullptr;
  auto messages = make(), older = make(); // must outlive the memory
  auto memory = messages->symmetricMemory(MemoryFrom::Nccl, control);
  ASSERT_TRUE(memory.isOk());
  Result<void *> base = (*memory)->allocate(4096);
  ASSERT_TRUE(base.isOk());
  Status status = (*memory)->exportMemory(*base).status();
  EXPECT_EQ(status.code(), StatusCode::Unsupported);
  EXPECT_THAT(status.message(),
              HasSubstr("memory 'nccl': expected NCCL 2.29.0 or later, got 2.28.9 from "));
  library_.call.CommWindowRegister = nullptr;
  status = older->symmetricMemory(MemoryFrom::Nccl, control).status();
  EXPECT_EQ(status.code(), StatusCode::Unsupported);
  EXPECT_THAT(status.message(),
              HasSubstr("memory 'nccl': expected NCCL 2.27.0 or later, got 2.28.9 from "));
  memory = older->symmetricMemory(MemoryFrom::NcclRegistered, control);
  ASSERT_TRUE(memory.isOk());
  EXPECT_EQ((*memory)->exportMemory(nullptr).status().message(),
            "memory 'nccl-registered': expected messages, for peers do not reach it");
}

// -- Options of communicators, and registered memory. --

TEST_F(NcclMessagesTest, EachChoiceOfCtasHasItsOwnCommunicators) {
  auto messages = make();
  const TransferMode eight{.ctas = {8, CtaPolicy::Default}};
  const TransferMode efficient{.ctas = {0, CtaPolicy::Efficiency}};
  const Team team = {0, 2};
  ASSERT_TRUE(openAll(*messages, 0, 3).isOk());
  ASSERT_TRUE(openAll(*messages, 0, 3, {team}, eight).isOk());
  ASSERT_TRUE(openAll(*messages, 0, 3, {}, efficient).isOk());
  ASSERT_TRUE(openAll(*messages, 0, 3, {team}, eight).isOk()); // exists already
  llvm::erase_value(standIn_->calls, "ncclGetUniqueId");
  EXPECT_THAT(takeCalls(),
              ElementsAre("ncclCommInitRankConfig 0 of 3, id 0x5a, blocking 0",
                          "ncclCommInitRankConfig 0 of 3, id 0x5a, blocking 0, 8 to 8 CTAs",
                          "ncclCommInitRankConfig 0 of 2, id 0x5a, blocking 0, 8 to 8 CTAs",
                          "ncclCommInitRankConfig 0 of 3, id 0x5a, blocking 0, policy 1"));
  const MessageArgs send{Direction::Send, 1, DType::F32, data_, 8};
  ASSERT_TRUE(messages->group(streamOf(1), {send}, eight.ctas).isOk());
  ASSERT_TRUE(
      messages->collective(streamOf(1), argsOf(CollectiveKind::AllGather, team, data_), eight.ctas)
          .isOk());
  EXPECT_THAT(takeCalls(), ElementsAre("ncclGroupStart", "ncclSend 2 f32 to 1 comm 1 stream 1",
                                       "ncclGroupEnd", "ncclAllGather 2 f32 comm 2 stream 1"));
  EXPECT_EQ(messages->collective(streamOf(1), argsOf(CollectiveKind::AllGather, team, data_), {})
                .message(),
            "NCCL: team [0, 2] was not opened");
  ASSERT_TRUE(messages->close(kLong).isOk());
  EXPECT_EQ(standIn_->liveCommunicators, 0);
}

/// All ranks report it, in the team of two or not, and no communicator was created.
TEST_F(NcclMessagesTest, APolicyThatAVersionLacksIsNamed) {
  const auto refused = [&](int version, CtaPolicy policy, std::vector<Team> teams) {
    library_.version = version;
    auto messages = make();
    const Status status = openAll(*messages, 0, 3, teams, {.ctas = {0, policy}});
    EXPECT_EQ(takeCalls().empty(), !status.isOk());
    EXPECT_TRUE(status.isOk() || status.code() == StatusCode::Unsupported);
    return status.message();
  };
  EXPECT_THAT(
      refused(22605, CtaPolicy::Efficiency, {}),
      HasSubstr("--cta-policy efficiency: expected NCCL 2.27.3 or later, got 2.26.5 from "));
  EXPECT_EQ(refused(22703, CtaPolicy::Efficiency, {}), "");
  EXPECT_THAT(refused(22802, CtaPolicy::Zero, {}),
              HasSubstr("--cta-policy zero: expected NCCL 2.28.3 or later, got 2.28.2 from "));
  EXPECT_EQ(refused(22803, CtaPolicy::Zero, {}), "");
  EXPECT_THAT(refused(23101, CtaPolicy::Zero, {{1, 2}}),
              HasSubstr("--cta-policy zero: expected NCCL 2.31.2 or later, for two ranks hang "
                        "before, got 2.31.1 from "));
  EXPECT_EQ(refused(23102, CtaPolicy::Zero, {{1, 2}}), "");
}

constexpr TransferMode kWindows{.memory = MemoryFrom::Nccl, .ctas = {0, CtaPolicy::Zero}};
constexpr TransferMode kRegistered{.memory = MemoryFrom::NcclRegistered, .ctas = {4}};

/// When teams open, existing memory is registered once with each communicator that will use it, and
/// with no other. All registrations are undone before any communicator closes.
TEST_F(NcclMessagesTest, CommunicatorsKnowTheMemoryThatMessagesUse) {
  library_.version = 23203;
  auto messages = make(0);
  FakeControl control(0, 3);
  const std::vector<Team> teams = {{0, 1}, {1, 2}};
  auto windows = messages->symmetricMemory(MemoryFrom::Nccl, control);
  auto registered = messages->symmetricMemory(MemoryFrom::NcclRegistered, control);
  ASSERT_TRUE(windows.isOk() && registered.isOk());
  EXPECT_FALSE((*registered)->isCollective());
  ASSERT_TRUE((*windows)->allocate(4096).isOk() && (*registered)->allocate(8192).isOk());
  ASSERT_TRUE(messages->openTeams({}, control, {}).isOk());
  (void)takeCalls();
  ASSERT_TRUE(messages->openTeams(teams, control, kWindows).isOk());
  EXPECT_THAT(takeCalls(), ElementsAre("ncclGetUniqueId",
                                       "ncclCommInitRankConfig 0 of 3, id 0x5a, blocking 0, "
                                       "policy 2",
                                       "ncclGetUniqueId",
                                       "ncclCommInitRankConfig 0 of 2, id 0x5a, blocking 0, "
                                       "policy 2",
                                       "ncclCommWindowRegister 4096 flags 1 comm 1",
                                       "ncclCommWindowRegister 4096 flags 1 comm 2"));
  ASSERT_TRUE((*registered)->allocate(64).isOk());
  (void)takeCalls();
  ASSERT_TRUE(messages->openTeams({}, control, kRegistered).isOk());
  ASSERT_TRUE(messages->openTeams({}, control, kRegistered).isOk());
  EXPECT_THAT(takeCalls(),
              ElementsAre("ncclGetUniqueId",
                          "ncclCommInitRankConfig 0 of 3, id 0x5a, blocking 0, 4 to 4 CTAs",
                          "ncclCommRegister 8192 comm 3", "ncclCommRegister 64 comm 3"));
  EXPECT_EQ(messages->describe(kWindows),
            "NCCL 2.32.3: messages from 1 window, its own choice of CTAs, CTA policy zero");
  EXPECT_EQ(messages->describe(kRegistered),
            "NCCL 2.32.3: messages from 2 registered buffers, 4 CTAs, CTA policy default");
  EXPECT_EQ(messages->describe({}), "NCCL 2.32.3: messages from buffers that it does not know, its "
                                    "own choice of CTAs, CTA policy default");
  EXPECT_EQ(standIn_->liveRegistrations, 5);
  (*windows)->closePeers();
  (*registered)->closePeers();
  EXPECT_EQ(standIn_->liveRegistrations, 0);
  const std::vector<std::string> calls = takeCalls();
  EXPECT_EQ(calls.size(), 5u);
  EXPECT_THAT(calls, testing::IsSupersetOf({"ncclCommWindowDeregister window 2 comm 1",
                                            "ncclCommDeregister 5 comm 3"}));
  ASSERT_TRUE(messages->close(kLong).isOk());
  *windows = nullptr;
  *registered = nullptr;
  messages.reset();
  EXPECT_EQ(standIn_->liveMemory, 0);
}

/// Injects each error at each call, immediately or later, or found in the background.
TEST_F(NcclMessagesTest, EveryErrorOfMemoryIsNamed) {
  const Team team = {0, 1};
  const auto useAll = [&](NcclMessages &messages, TransferMode mode,
                          std::unique_ptr<SymmetricMemory> &memory) -> Status {
    FakeControl control(0, 3);
    memory = BRAID_TRY(messages.symmetricMemory(mode.memory, control));
    BRAID_TRY(memory->allocate(4096));
    return messages.openTeams({team}, control, mode);
  };
  int tried = 0;
  for (const char *function : {"ncclMemAlloc", "ncclCommWindowRegister", "ncclCommRegister"})
    for (TransferMode mode : {kWindows, kRegistered})
      for (int code = 1; code <= 6; ++code)
        for (int call = 0; call < 3; ++call)
          for (bool isLater : {false, true}) {
            SetUp();
            library_.version = 23203;
            standIn_->injected = {{function, call, static_cast<Code>(code), isLater}};
            auto messages = make();
            std::unique_ptr<SymmetricMemory> memory;
            const Status status = useAll(*messages, mode, memory);
            const std::string context = fmt::format("{} {} {} {} {}", function, code, call, isLater,
                                                    name(mode.memory).str());
            const bool isMade = llvm::count_if(standIn_->calls, [&](const std::string &text) {
                                  return text.find(std::string(function) + " ") == 0;
                                }) > call;
            EXPECT_EQ(status.isOk(), !isMade) << context;
            if (isMade) {
              ++tried;
              EXPECT_THAT(status.message(),
                          HasSubstr(fmt::format("error {} from {}", code, function)))
                  << context;
            }
            messages->abort();
            EXPECT_TRUE(messages->close(std::chrono::milliseconds(1000)).isOk()) << context;
            memory = nullptr;
            messages = nullptr;
            EXPECT_EQ(standIn_->liveCommunicators + standIn_->liveMemory, 0) << context;
          }
  EXPECT_GT(tried, 60);
}

/// Errors of deregistration are ignored: destroying the communicator frees the rest.
TEST_F(NcclMessagesTest, MemoryIsGivenBackAllTheSame) {
  for (const char *function : {"ncclCommWindowDeregister", "ncclCommDeregister"})
    for (TransferMode mode : {kWindows, kRegistered}) {
      SetUp();
      library_.version = 23203;
      standIn_->injected = {{function, 0, Code::SystemError}};
      FakeControl control(0, 3);
      auto messages = make();
      auto memory = messages->symmetricMemory(mode.memory, control);
      ASSERT_TRUE(memory.isOk() && (*memory)->allocate(4096).isOk());
      ASSERT_TRUE(messages->openTeams({}, control, mode).isOk());
      (*memory)->closePeers();
      EXPECT_TRUE(messages->close(kLong).isOk());
      *memory = nullptr;
      messages = nullptr;
      EXPECT_EQ(standIn_->liveCommunicators + standIn_->liveMemory + standIn_->liveRegistrations,
                0);
    }
}

TEST_F(NcclMessagesTest, MemoryThatIsNotRegisteredIsNamed) {
  standIn_->givesWindows = false;
  FakeControl control(0, 2);
  auto messages = make();
  auto memory = messages->symmetricMemory(MemoryFrom::NcclRegistered, control);
  ASSERT_TRUE(memory.isOk() && (*memory)->allocate(4096).isOk());
  const Status status = messages->openTeams({}, control, kRegistered);
  EXPECT_EQ(status.code(), StatusCode::Unsupported);
  EXPECT_EQ(status.message(), "memory 'nccl-registered': NCCL 2.28.9 registers nothing here");
}

/// An incomplete registration is abandoned, although it may still write its window later.
TEST_F(NcclMessagesTest, AWindowThatDoesNotComeTimesOut) {
  FakeControl control(0, 3);
  auto messages = make(0, kShort);
  auto memory = messages->symmetricMemory(MemoryFrom::Nccl, control);
  ASSERT_TRUE(memory.isOk());
  standIn_->pollsInProgress = -1;
  const Status status = (*memory)->allocate(4096).status();
  EXPECT_EQ(status.code(), StatusCode::TimedOut);
  EXPECT_EQ(status.message(), "NCCL: ncclCommWindowRegister is still in progress after 50 ms");
}

/// Aborting the communicator has already destroyed the windows, so the memory is only freed.
TEST_F(NcclMessagesTest, MemoryOfAnAbortedJobIsOnlyFreed) {
  auto messages = make();
  FakeControl control(0, 2);
  Result<std::unique_ptr<SymmetricMemory>> memory =
      messages->symmetricMemory(MemoryFrom::Nccl, control);
  ASSERT_TRUE(memory.isOk() && (*memory)->allocate(4096).isOk());
  messages->abort();
  ASSERT_TRUE(messages->close(kLong).isOk());
  (void)takeCalls();
  *memory = nullptr;
  EXPECT_THAT(takeCalls(), ElementsAre("ncclMemFree"));
}

// -- Loading the library. --

/// A rank with a library must not wait for a rank without one.
TEST_F(NcclMessagesTest, AllRanksHaveALibraryOrNone) {
  FakeControl control(1, 2);
  control.othersLibrary = "NCCL: expected a library";
  auto messages = make(1);
  const Status status = messages->openTeams({}, control, {});
  EXPECT_EQ(status.code(), StatusCode::Unsupported);
  EXPECT_EQ(status.message(), "rank 0: NCCL: expected a library");
  EXPECT_TRUE(takeCalls().empty());
  control.othersLibrary = "found";
  EXPECT_TRUE(messages->openTeams({}, control, {}).isOk()) << "now it has";
  NcclMessages without([] { return Result<const Library *>(Status(unsupported("none here"))); }, 0,
                       Patience{kLong});
  EXPECT_EQ(without.openTeams({}, control, {}).message(), "none here");
}

/// The library reads the environment when it starts. A message says why multicast is not used.
TEST_F(NcclMessagesTest, TheLibraryStartsWithoutMulticast) {
  setenv("BRAID_NCCL_LIBRARY", BRAID_STAND_IN, 1);
  unsetenv("NCCL_NVLS_ENABLE");
  ASSERT_TRUE(Library::load().isOk());
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "0");
  setenv("NCCL_NVLS_ENABLE", "2", 1);
  const Status status = keepMulticastOff();
  EXPECT_EQ(status.code(), StatusCode::Unsupported);
  EXPECT_EQ(status.message(), "NCCL: expected NCCL_NVLS_ENABLE=0, got '2': NVLink multicast is not "
                              "used, for a process that ends while it has some may put GPUs out of "
                              "service");
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
              HasSubstr("NCCL: expected a library in /no/such/file.so, got '/no/such/file.so: "
                        "cannot open"));
  const std::string half = testing::TempDir() + "half.so";
  std::ofstream(half) << "\177ELF and no more";
  EXPECT_THAT(messageOf(half), HasSubstr("NCCL: expected a library in " + half));
  standIn_->version = 21805;
  EXPECT_THAT(messageOf(BRAID_STAND_IN),
              HasSubstr("NCCL: expected version 2.19.0 or later, got 2.18.5 from " BRAID_STAND_IN));
  EXPECT_THAT(messageOf(BRAID_STAND_IN_WITHOUT),
              HasSubstr(BRAID_STAND_IN_WITHOUT " lacks ncclGetUniqueId"));
  EXPECT_THAT(messageOf("libm.so.6"), HasSubstr("libm.so.6 lacks ncclGetVersion"));
}

} // namespace
} // namespace braid::test
