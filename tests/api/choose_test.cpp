//===- tests/api/choose_test.cpp - choosing, on ranks that are threads ------------------------===//

#include "api/candidates.h"
#include "api/choose.h"
#include "api/gather_bench.h"
#include "api/run.h"
#include "api/time_candidates.h"
#include "tests/support/counting_cluster.h"

#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

namespace braid {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char *kFusion = R"(
fusion @small(D = 3) {
  mesh [0 .. D)
  %A = input f32[DIDx{D}, 128, 16]
  %B = input f32[16, 8]
  %C = matmul %A, %B : f32[Stream{D}, 128, 8]
  output %C
}
)";

/// What each of the ranks has chosen.
std::vector<Result<ScheduleChoice>> chooseOnRanks(int64_t ranks, const std::string &text,
                                                  const ChooseOptions &options) {
  std::vector<TimedPlans> plans(static_cast<size_t>(ranks));
  BackendRegistry registry = builtinBackends();
  auto mesh = LocalMesh::create(*registry.find("cpu"), {.ranks = ranks});
  EXPECT_TRUE(mesh.isOk());
  std::vector<Result<ScheduleChoice>> choices(static_cast<size_t>(ranks),
                                              Status(StatusCode::Internal, "not asked"));
  Status status = (*mesh)->onEveryRank([&](int64_t rank) {
    const size_t index = static_cast<size_t>(rank);
    PlanTimer timer((*mesh)->cluster(), rank, plans[index]);
    choices[index] = choose("t.braid", text, options, timer);
    return choices[index] ? Status::ok() : choices[index].status();
  });
  EXPECT_EQ(status.isOk(), choices[0].isOk()) << status.message();
  return choices;
}

/// Of three streams two are for transfers, so that products are one behind the other.
TEST(Candidate, HasProductsOnOneStreamAndOnTwo) {
  CompileOptions given;
  const Issuing ways[] = {Issuing::Graph};
  const TransferMeans means[] = {{}};
  auto streamsOf = [&](Schedule schedule, Transfers transfers) {
    std::set<int64_t> streams;
    for (const Candidate &each : broadCandidates({given, ways, means, 4, 1024}))
      if (each.schedule == schedule && each.transfers == transfers)
        streams.insert(each.streams);
    return streams;
  };
  EXPECT_THAT(streamsOf(Schedule::Pairwise, Transfers::Shared), ElementsAre(3, 4));
  EXPECT_THAT(streamsOf(Schedule::Pairwise, Transfers::Each), ElementsAre(4));
  EXPECT_THAT(streamsOf(Schedule::Doubling, Transfers::Each), ElementsAre(3, 4));
  given.streams = 5;
  EXPECT_THAT(streamsOf(Schedule::Pairwise, Transfers::Shared), ElementsAre(5));
}

/// Its chunks tell the candidates of a family apart.
TEST(Candidate, IsWorthVariantsIfItsFamilyHasFewBetterOnes) {
  auto of = [](Schedule schedule, Protocol protocol, int64_t chunks) {
    Candidate candidate;
    candidate.schedule = schedule;
    candidate.protocol = protocol;
    candidate.chunks = chunks;
    return candidate;
  };
  std::vector<Candidate> bestFirst = {of(Schedule::Hop, Protocol::Get, 4)};
  for (int64_t chunks : {4, 0, 8}) {
    bestFirst.push_back(of(Schedule::Pairwise, Protocol::Put, chunks));
    bestFirst.back().streams = 3;
    bestFirst.push_back(of(Schedule::Pairwise, Protocol::Put, chunks));
  }
  std::vector<std::string> worth;
  for (const Candidate &each : worthVariants(bestFirst))
    worth.push_back(fmt::format("{} {} {}", name(each.schedule).str(), each.chunks, each.streams));
  EXPECT_THAT(worth, ElementsAre("hop 4 0", "pairwise 4 3", "pairwise 0 3"));
  bestFirst.clear();
  for (Schedule schedule : allSchedules())
    for (Protocol protocol : {Protocol::Get, Protocol::Put})
      bestFirst.push_back(of(schedule, protocol, 0));
  ASSERT_GT(bestFirst.size(), 8u);
  EXPECT_EQ(worthVariants(bestFirst).size(), 8u) << "of the best families";
}

TEST(Candidate, HasProductsOfWholeWavesUnderDoubling) {
  using testing::Pair;
  auto cutsOf = [](Schedule schedule, const CompileOptions &given, int64_t waveRows) {
    Candidate candidate;
    candidate.schedule = schedule;
    std::vector<std::pair<int64_t, int64_t>> cuts; // waves and tapers, with one stream
    for (const Candidate &each : variantsOf(candidate, given, waveRows))
      if (each.streams == 1)
        cuts.emplace_back(each.waveRows, each.taper);
    return cuts;
  };
  EXPECT_THAT(cutsOf(Schedule::Doubling, {}, 603),
              ElementsAre(Pair(0, 1), Pair(0, 2), Pair(603, 1), Pair(603, 2)));
  EXPECT_THAT(cutsOf(Schedule::Doubling, {}, 0), ElementsAre(Pair(0, 1), Pair(0, 2)))
      << "a device without";
  EXPECT_THAT(cutsOf(Schedule::Doubling, {.taper = 1, .waveRows = 7}, 603),
              ElementsAre(Pair(7, 1)));
  EXPECT_THAT(cutsOf(Schedule::Pairwise, {}, 603), ElementsAre(Pair(0, 1), Pair(0, 2), Pair(0, 4)));
  EXPECT_THAT(cutsOf(Schedule::Fused, {}, 603), ElementsAre(Pair(0, 1)));
  Candidate candidate;
  candidate.waveRows = 603;
  EXPECT_THAT(candidate.str(), HasSubstr(";wave=603;"));
  EXPECT_EQ(Candidate::fromText(candidate.str())->waveRows, 603);
  EXPECT_EQ(candidate.applyTo({}).waveRows, 603);
}

/// Only where several peers are fed at once.
TEST(Candidate, MayTakeLongerWhereCopiesDriftApart) {
  Candidate candidate;
  EXPECT_GT(mayTake(candidate, 3, /*hasCopyEngines=*/true), 1);
  EXPECT_EQ(mayTake(candidate, 2, true), 1) << "one peer";
  EXPECT_EQ(mayTake(candidate, 3, false), 1);
  candidate.means = {CopyBy::Kernel, SignalBy::Default};
  EXPECT_EQ(mayTake(candidate, 3, true), 1);
  candidate.means = {CopyBy::Engine, SignalBy::Memory};
  EXPECT_GT(mayTake(candidate, 3, true), 1);
  candidate.transfers = Transfers::Shared;
  EXPECT_EQ(mayTake(candidate, 3, true), 1);
  candidate.transfers = Transfers::Each;
  candidate.streams = 1;
  EXPECT_EQ(mayTake(candidate, 3, true), 1) << "one behind the other";
  candidate.streams = 4;
  candidate.schedule = Schedule::Burst;
  EXPECT_EQ(mayTake(candidate, 3, true), 1);
}

/// 132 multiprocessors.
TEST(Candidate, KnowsTheRowsOfAWave) {
  EXPECT_EQ(waveRowsOf(132, 3584), 1206);
  EXPECT_EQ(waveRowsOf(132, 256), 132 * 128);
  EXPECT_EQ(waveRowsOf(132, 257), 132 * 128 / 2) << "a tile more in each row";
  EXPECT_EQ(waveRowsOf(132, 100), 132 * 128) << "a tile may be partly empty";
  EXPECT_EQ(waveRowsOf(0, 3584), 0);
}

/// One rank that computes nothing.
class NullRank {
public:
  NullRank()
      : mesh_(LocalMesh::create(*registry_.find("null"), {.ranks = 1})),
        counting_((*mesh_)->cluster()) {}
  test::CountingDevice &device() { return counting_.device(0); }
  PlanTimer timer() { return {counting_, 0, plans_}; }

private:
  TimedPlans plans_;
  BackendRegistry registry_ = builtinBackends();
  Result<std::unique_ptr<LocalMesh>> mesh_;
  test::CountingCluster counting_;
};

/// Few operations have no clocks of their own, nor have the host's cores.
TEST(PlanTimer, LetsLargeProductsSettle) {
  const PlanMatmul small{DType::BF16, 1024, 1024, 1024, false, {}, {}, {}, {}};
  const PlanMatmul large{DType::BF16, 4096, 4096, 4096, false, {}, {}, {}, {}};
  NullRank rank;
  PlanTimer timer = rank.timer();
  EXPECT_EQ(timer.settlingUs({small, large}), 0);
  rank.device().actAsGpu(std::chrono::microseconds(20));
  EXPECT_EQ(timer.settlingUs({}), 0);
  EXPECT_EQ(timer.settlingUs({small, small}), 0);
  EXPECT_EQ(timer.settlingUs({small, large}), 100e3);
}

/// How many runs it takes to choose for a product in two halves, once products are known.
double runsToChoose(int64_t rows, int64_t timed, const std::string &cacheFolder) {
  NullRank rank;
  rank.device().actAsGpu(std::chrono::microseconds(20));
  PlanTimer timer = rank.timer();
  ChooseOptions options;
  options.cacheFolder = cacheFolder;
  options.timed = timed;
  const std::string text = fmt::format("fusion @halves(S = 2) {{\n"
                                       "  mesh [0 .. 1)\n"
                                       "  %A = input f32[S, {0}, 4096]\n"
                                       "  %B = input f32[4096, 2048]\n"
                                       "  %C = matmul %A, %B : f32[Stream{{S}}, {0}, 2048]\n"
                                       "  output %C\n}}\n",
                                       rows);
  Result<ScheduleChoice> choice = choose("t.braid", text, options, timer);
  EXPECT_TRUE(choice) << choice.status().message();
  return static_cast<double>(rank.device().synchronizations());
}

/// A look has 30 ms to settle, and each of two finalists has 100 in each of three turns.
TEST(Choose, LetsLargeFinalistsSettle) {
  const std::string folder = testing::TempDir() + "choose_test_settles";
  std::filesystem::remove_all(folder);
  for (int64_t rows : {8, 2048})
    runsToChoose(rows, 0, folder);
  EXPECT_LT(runsToChoose(8, 2, folder), 1000);
  const double looks = runsToChoose(2048, 1, folder);
  EXPECT_GT(looks, 1000);
  EXPECT_GT(runsToChoose(2048, 2, folder), 4 * looks);
  std::filesystem::remove_all(folder);
}

TEST(Candidate, ReadsWhatItWrote) {
  Candidate candidate{Schedule::Hop, Protocol::Put, 12, 5};
  EXPECT_EQ(candidate.str(), "hop;protocol=put;chunks=12;streams=5;issuing=eager");
  EXPECT_EQ(Candidate::fromText(candidate.str())->str(), candidate.str());
  candidate.taper = 2;
  candidate.transfers = Transfers::Shared;
  candidate.means = {CopyBy::Kernel, SignalBy::Memory};
  candidate.issuing = Issuing::Graph;
  EXPECT_EQ(candidate.str(), "hop;protocol=put;chunks=12;streams=5;taper=2;transfers=shared;"
                             "copies=kernel;signals=memory;issuing=graph");
  EXPECT_EQ(Candidate::fromText(candidate.str())->str(), candidate.str());
  for (const char *bad : {"", "hops", "hop;chunks=-1", "hop;chunks", "hop;issuing=lazy", "hop;x=1"})
    EXPECT_EQ(Candidate::fromText(bad).status().code(), StatusCode::BadInput) << bad;
}

TEST(Choose, MakesOneChoiceForAllRanks) {
  std::vector<Result<ScheduleChoice>> choices = chooseOnRanks(3, kFusion, {});
  for (const Result<ScheduleChoice> &choice : choices) {
    ASSERT_TRUE(choice.isOk()) << choice.status().message();
    EXPECT_EQ(choice->best().str(), choices[0]->best().str());
    EXPECT_EQ(choice->ranks, 3);
    EXPECT_EQ(choice->fusion, "small");
  }
  // The chosen one was timed, and nobody who took turns with it was faster.
  const std::vector<JudgedCandidate> &all = choices[0]->candidates;
  ASSERT_TRUE(all[0].measuredUs);
  const size_t timed = choices[0]->timed();
  EXPECT_GE(timed, 3u);
  EXPECT_LE(timed, TimingLimits().most);
  const Finals finals = choices[0]->finals;
  EXPECT_NE(finals.players, 1u) << "if none is close to the fastest, nobody plays";
  EXPECT_LE(finals.players, 8u);
  EXPECT_EQ(finals.finalists, std::min(finals.players, kFinalists));
  for (size_t i = 0; i < timed; ++i)
    ASSERT_TRUE(all[i].measuredUs) << "those that were timed come first";
  for (size_t i = 0; i < finals.finalists; ++i)
    EXPECT_GE(*all[i].measuredUs, *all[0].measuredUs);
  bool hasOther = std::any_of(all.begin(), all.begin() + int64_t(timed), [&](const auto &each) {
    return each.candidate.schedule != all[0].candidate.schedule;
  });
  EXPECT_TRUE(hasOther) << "one schedule was timed only\n" << explain(*choices[0]);
}

TEST(Choose, TimesAsManyAsItIsAskedTo) {
  ChooseOptions options;
  options.timed = 5;
  Result<ScheduleChoice> choice = std::move(chooseOnRanks(2, kFusion, options)[0]);
  ASSERT_TRUE(choice.isOk()) << choice.status().message();
  EXPECT_EQ(choice->timed(), 5u);
  options.timed = 1000;
  choice = std::move(chooseOnRanks(2, kFusion, options)[0]);
  EXPECT_EQ(choice->timed(), choice->candidates.size());
}

/// Each may hold gigabytes.
TEST(Choose, HoldsTheMemoryOfAFewCandidates) {
  std::vector<TimedPlans> plans(2); // outlive the cluster
  BackendRegistry registry = builtinBackends();
  auto mesh = LocalMesh::create(*registry.find("cpu"), {.ranks = 2});
  ASSERT_TRUE(mesh.isOk());
  test::CountingCluster counting((*mesh)->cluster());
  ChooseOptions options;
  options.timed = 1000;
  Status status = (*mesh)->onEveryRank([&](int64_t rank) {
    PlanTimer timer(counting, rank, plans[static_cast<size_t>(rank)]);
    Result<ScheduleChoice> choice = choose("t.braid", kFusion, options, timer);
    EXPECT_TRUE(!choice || choice->timed() > 30);
    return choice.status();
  });
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_LE(counting.device(0).mostHeld(), 11u);
  EXPECT_LE(counting.device(1).mostHeld(), 11u);
}

/// Made up: twelve candidates, of which `timed` were.
ScheduleChoice choiceOf(size_t timed) {
  ScheduleChoice choice;
  choice.finals.finalists = timed / 2;
  choice.finals.rounds = 7;
  for (size_t i = 0; i < 12; ++i) {
    JudgedCandidate judged;
    judged.predictedUs = 112 - double(i);
    if (i < timed)
      judged.measuredUs = 50;
    choice.candidates.push_back(judged);
  }
  return choice;
}

TEST(Choose, ExplainsWhatWasTimedAndAFewMore) {
  const std::string text = explain(choiceOf(4), 3);
  EXPECT_EQ(llvm::StringRef(text).count("issuing="), 4u + 3 + 1) << "one is chosen\n" << text;
  EXPECT_THAT(text, HasSubstr("\n  and 5 more, predicted to take 101.0 us or longer\n"
                              "  timed: 4 of 12, one of each schedule, protocol and means first; "
                              "the first 2 again, in turns, 7 times\n"));
  ScheduleChoice withOthers = choiceOf(4);
  withOthers.finals.players = 3;
  EXPECT_THAT(explain(withOthers),
              HasSubstr("the first 2 again, in turns, 7 times, with 1 more in the first round\n"));
  EXPECT_THAT(explain(choiceOf(4), 12), testing::Not(HasSubstr("more, predicted")));
  EXPECT_THAT(explain(choiceOf(0), 3), testing::Not(HasSubstr("timed: ")));
}

TEST(Choose, SaysThatOthersWereFaster) {
  ScheduleChoice choice = choiceOf(4);
  EXPECT_EQ(reasonFor(choice), "the fastest of the 4 that were timed");
  choice.candidates[1].measuredUs = 48; // in a first look, by luck
  choice.candidates[2].measuredUs = 49;
  choice.candidates[2].mayTake = choice.candidates[3].mayTake = 1.2;
  EXPECT_EQ(reasonFor(choice),
            "the fastest of the 4 that were timed, but for 1 whose runs may take "
            "longer at times");
  choice.candidates[0].mayTake = 1.2;
  EXPECT_EQ(reasonFor(choice), "the fastest of the 4 that were timed");
}

TEST(Choose, SaysThatOthersArePredictedToBeFaster) {
  ScheduleChoice choice = choiceOf(0);
  EXPECT_EQ(reasonFor(choice), "predicted to be the fastest");
  choice.candidates[2].mayTake = 1.2;
  EXPECT_EQ(reasonFor(choice),
            "predicted to be the fastest, but for 1 whose runs may take longer at times");
}

TEST(Choose, KeepsWhatIsGiven) {
  ChooseOptions options;
  options.given = {.schedule = Schedule::Hop, .protocol = Protocol::Put, .chunks = 6};
  options.timed = 0;
  Result<ScheduleChoice> choice = std::move(chooseOnRanks(3, kFusion, options)[0]);
  ASSERT_TRUE(choice.isOk()) << choice.status().message();
  EXPECT_GT(choice->candidates.size(), 1u);
  for (const JudgedCandidate &each : choice->candidates) {
    EXPECT_THAT(each.candidate.str(), testing::StartsWith("hop;protocol=put;chunks=6;"));
    EXPECT_FALSE(each.measuredUs);
  }
  EXPECT_THAT(choice->reason, HasSubstr("predicted to be the fastest"));
}

TEST(Choose, SaysWhatItCannotLower) {
  ChooseOptions options;
  options.given.chunks = 7; // no multiple of 3
  Result<ScheduleChoice> choice = std::move(chooseOnRanks(3, kFusion, options)[0]);
  EXPECT_EQ(choice.status().code(), StatusCode::BadInput);
  EXPECT_THAT(choice.status().message(), HasSubstr("7"));
}

/// What was measured for one question is there for the next, whatever that allows.
TEST(Choose, KeepsAndAddsToItsModel) {
  std::string folder = testing::TempDir() + "choose_test_cache";
  std::filesystem::remove_all(folder);
  ChooseOptions options;
  options.cacheFolder = folder;
  options.given.schedule = Schedule::None;
  Result<ScheduleChoice> first = std::move(chooseOnRanks(2, kFusion, options)[0]);
  ASSERT_TRUE(first.isOk()) << first.status().message();
  EXPECT_THAT(first->source, HasSubstr("measured in"));
  options.given.schedule = Schedule::Pairwise;
  Result<ScheduleChoice> second = std::move(chooseOnRanks(2, kFusion, options)[0]);
  EXPECT_THAT(second->source, testing::StartsWith("from " + folder));
  EXPECT_THAT(second->source, HasSubstr(", products in")) << "of a block";
  options.given.schedule = Schedule::None;
  Result<ScheduleChoice> third = std::move(chooseOnRanks(2, kFusion, options)[0]);
  EXPECT_THAT(third->source, testing::Not(HasSubstr("products"))) << "all is known";
  std::filesystem::remove_all(folder);
}

TEST(Choose, WorksForOneRank) {
  Result<ScheduleChoice> choice = std::move(chooseOnRanks(1, kFusion, {})[0]);
  ASSERT_TRUE(choice.isOk()) << choice.status().message();
}

TEST(Choose, MakesARowOfABench) {
  std::vector<TimedPlans> plans(1);
  BackendRegistry registry = builtinBackends();
  auto mesh = LocalMesh::create(*registry.find("cpu"), {.ranks = 1});
  PlanTimer timer((*mesh)->cluster(), 0, plans[0]);
  Result<TimedRow> row = makeGatherRow("pairwise;streams=2", {8, 8, 8}, DType::F32, 1, false);
  ScheduleChoice choice;
  Result<TimedRow> chosen = chooseRow(*row, {}, timer, &choice);
  ASSERT_TRUE(chosen.isOk()) << chosen.status().message();
  EXPECT_EQ(chosen->options.schedule, choice.best().schedule);
  EXPECT_EQ(chosen->options.streams, 2);
  EXPECT_FALSE(chosen->isGraphed);
}

} // namespace
} // namespace braid
