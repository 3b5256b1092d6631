//===- tests/api/choose_test.cpp - choosing a schedule with ranks that are threads ------------===//

#include "api/autotune/candidate_search.h"
#include "api/autotune/choose.h"
#include "api/autotune/trials.h"
#include "api/compile/plans.h"
#include "backends/null/null_backend.h"
#include "runtime/files.h"
#include "runtime/tune/measurement_file.h"
#include "tests/support/configured.h"
#include "tests/support/counting_cluster.h"
#include "tests/support/local_mesh.h"
#include "tests/support/message_cluster.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <unistd.h>

namespace braid {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string sized(int64_t rows) {
  return fmt::format("fusion @small(D = 3) {{\n"
                     "  mesh [0 .. D)\n"
                     "  %A = input f32[DIDx{{D}}, {0}, 16]\n"
                     "  %B = input f32[16, 8]\n"
                     "  %C = matmul %A, %B : f32[Stream{{D}}, {0}, 8]\n"
                     "  output %C\n}}\n",
                     rows);
}
const std::string kFusion = sized(128);

/// A fusion with two independent stages, each of which gathers one operand.
constexpr const char *kTwoStages = R"(
fusion @two(D = 3) {
  mesh [0 .. D)
  %A = input f32[DIDx{D}, 64, 16]
  %X = input f32[DIDx{D}, 64, 16]
  %B = input f32[16, 8]
  %C = matmul %A, %B : f32[Stream{D}, 64, 8]
  %Y = matmul %X, %B : f32[Stream{D}, 64, 8]
  output %C
  output %Y
}
)";

/// A matmul whose partial results are reduce-scattered. Each rank receives 64 rows.
constexpr const char *kReduction = R"(
fusion @reduced(D = 3) {
  mesh [0 .. D)
  %A = input f32[D, 64, DIDx{D}, 16]
  %B = input f32[DIDx{D}, 16, 8]
  %C = matmul %A, %B : f32[DIDx{D}, 64, 8]
  output %C
}
)";

using test::configured;

Candidate of(const std::string &text) { return configured(text).all; }

const Backend &cpuBackend() {
  static const BackendRegistry registry = builtinBackends();
  return *registry.find("cpu");
}

/// Calls choose() on all ranks and returns each rank's choice.
std::vector<Result<ScheduleChoice>> chooseOnRanks(int64_t ranks, const std::string &text,
                                                  const ChooseOptions &options,
                                                  const Backend &backend = cpuBackend()) {
  std::vector<TimedPlans> plans(static_cast<size_t>(ranks));
  auto mesh = LocalMesh::create(backend, {.ranks = ranks});
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

std::string gatherOf(int64_t rows) {
  return fmt::format("fusion @gather(D = 4) {{\n"
                     "  mesh [0 .. D)\n"
                     "  %A = input f32[DIDx{{D}}, {0}, 16]\n"
                     "  %B = input f32[16, 8]\n"
                     "  %C = matmul %A, %B : f32[Stream{{D}}, {0}, 8]\n"
                     "  output %C\n}}\n",
                     rows);
}

/// Returns a reduce-scatter if `outer`, the result's outer axis, is "DIDx{D}", or an all-reduce if
/// it is "D".
std::string reductionOf(const char *outer, int64_t rows) {
  return fmt::format("fusion @reduction(D = 4) {{\n"
                     "  mesh [0 .. D)\n"
                     "  %A = input f32[D, {0}, DIDx{{D}}, 16]\n"
                     "  %B = input f32[DIDx{{D}}, 16, 8]\n"
                     "  %C = matmul %A, %B : f32[{1}, {0}, 8]\n"
                     "  output %C\n}}\n",
                     rows, outer);
}

std::string scatterOf(int64_t rows) { return reductionOf("DIDx{D}", rows); }
std::string allReduceOf(int64_t rows) { return reductionOf("D", rows); }

/// Returns the candidates that lowering accepts for a fusion with one stage.
std::vector<Candidate> firstFor(const std::string &text, const Configuration &given = {}) {
  const std::unique_ptr<Source> source = parseSource("t.braid", text);
  const Result<Compiled> compiled = compile(*source, {});
  EXPECT_TRUE(compiled) << source->diags.str();
  const std::vector<FusionStage> stages = stagesOf(*compiled->fusion, source->diags);
  EXPECT_EQ(stages.size(), 1u);
  std::vector<Candidate> candidates = candidatesFor(given, stages.front());
  llvm::erase_if(candidates, [&](const Candidate &each) {
    return !compile(*parseSource("t.braid", text), {.schedule = {each}});
  });
  return candidates;
}

/// A search for the candidates of a fusion, on which findFusion() has been called.
struct Search {
  Search(const std::string &fusion, const Configurations &schedule)
      : text(fusion), options{.schedule = schedule} {
    const Status status = search.findFusion();
    EXPECT_TRUE(status.isOk()) << status.message();
  }

  const std::string name = "t.braid", text;
  const CompileOptions options;
  CandidateSearch search{name, text, options, [](const Compiled &each) { return makePlans(each); },
                         nullptr};
};

/// If two of three streams are reserved for transfers, all GEMMs run on one stream.
TEST(Candidate, HasGemmsOnOneStreamAndOnTwo) {
  auto streamsOf = [&](const char *schedule, const Configuration &given = {}) {
    std::set<int64_t> streams;
    for (const Candidate &each : firstFor(gatherOf(1024), given))
      if ((each.str() + ";").starts_with(std::string(schedule) + ";") &&
          each.placement() == of(schedule).placement())
        streams.insert(each.streams());
    return streams;
  };
  EXPECT_THAT(streamsOf("pairwise;placement=shared"), ElementsAre(3, 4));
  EXPECT_THAT(streamsOf("pairwise"), ElementsAre(4));
  EXPECT_THAT(streamsOf("coalesced"), ElementsAre(3, 4));
  EXPECT_THAT(streamsOf("batched"), ElementsAre(4));
  EXPECT_THAT(streamsOf("pairwise;placement=shared", of("streams=5")), ElementsAre(5));
}

TEST(Candidate, IsOneOfTheFirstLookAtMostOnce) {
  const RunModes modes{.transferModes = {{}, {CopyBy::Kernel, SignalBy::Default}}};
  std::vector<std::string> all;
  for (const Candidate &each : firstFor(gatherOf(1024)))
    for (const Candidate &inMode : inAllModes(each, modes))
      all.push_back(inMode.str());
  const std::set<std::string> texts(all.begin(), all.end());
  EXPECT_EQ(texts.size(), all.size());
  // There are 4 combinations of protocol and mode, 5 ways to divide a block (4 numbers of chunks
  // and a tail split), and up to 2 numbers of streams. The terms are for pairwise, pairwise with
  // shared streams, ring, batched, coalesced, and two schedules with a single GEMM, which is not
  // divided. A collective has no protocol.
  EXPECT_EQ(all.size(), 4u * (5 + 2 * 5 + 5 + 5 + 2 * 5 + 1 + 1) + 2);
  EXPECT_TRUE(texts.count("pairwise"));
  EXPECT_TRUE(texts.count("pairwise;placement=shared;protocol=put;chunks=8;streams=3;"
                          "copies=kernel"));
}

/// The possible schedules and numbers of streams for a reduction differ from those for a gather.
TEST(Candidate, OfAReductionIsWhatCanBeReduced) {
  std::map<std::string, std::set<int64_t>> streams;
  for (const Candidate &each : firstFor(scatterOf(1024))) {
    const bool isShared = each.placement() == schedule::Placement::Shared;
    streams[each.preset().str() + (isShared ? ", shared" : "")].insert(each.streams());
  }
  using testing::Pair;
  EXPECT_THAT(streams, ElementsAre(Pair("bulk", ElementsAre(4)), Pair("collective", ElementsAre(4)),
                                   Pair("pairwise", ElementsAre(3, 4)),
                                   Pair("pairwise, shared", ElementsAre(4, 5)),
                                   Pair("sequential", ElementsAre(4))));
}

/// Candidates that send messages have no protocol and no transfer mode. All chunks of a collective
/// have the same size.
TEST(Candidate, OfMessagesHasNoProtocol) {
  std::set<std::string> collectives;
  const auto all = firstFor(scatterOf(192), of("transport=messages"));
  EXPECT_GT(all.size(), 4u);
  for (const Candidate &each : all) {
    EXPECT_FALSE(each.get(Knob::Protocol) || each.get(Knob::Copies)) << each.str();
    if (each.preset() == "collective")
      collectives.insert(each.str());
  }
  EXPECT_THAT(collectives, ElementsAre("collective;chunks=2;transport=messages",
                                       "collective;transport=messages"));
}

/// A ring adds partial results in a different order, so rounding differs.
TEST(Candidate, ReducesAroundARingOnlyIfAsked) {
  const auto all = firstFor(scatterOf(1024), of("ring"));
  EXPECT_EQ(all.size(), 3u * 3 * 5) << "streams, get or put or at peers, chunks or a tail split";
  for (const Candidate &each : all)
    EXPECT_EQ(each.preset(), "ring") << each.str();
}

/// In two shots, each rank splits only its own part of the rows into chunks, and transfers use two
/// more streams.
TEST(Candidate, OfAnAllReduceHasOneShotOrTwo) {
  std::set<int64_t> chunks[2], streams[2];
  std::map<std::string, std::set<std::string>> shots;
  for (const Candidate &each : firstFor(allReduceOf(256))) {
    const bool areTwo = each.reduction() == schedule::Reduction::TwoShot;
    shots[each.preset().str()].insert(rowOf(Knob::Reduction).str(each.valueOf(Knob::Reduction)));
    if (each.granularity() != schedule::Granularity::Chunk)
      continue;
    chunks[areTwo].insert(each.chunks());
    streams[areTwo].insert(each.streams());
  }
  for (const char *preset : {"pairwise", "sequential", "bulk"})
    EXPECT_THAT(shots[preset], ElementsAre("one-shot", "two-shot")) << preset;
  EXPECT_THAT(chunks[0], ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(chunks[1], ElementsAre(1, 2, 4));
  EXPECT_THAT(streams[0], ElementsAre(3, 4, 5));
  EXPECT_THAT(streams[1], ElementsAre(5, 6, 7));
}

/// The second shot may use put if all transfers of a shot are posted at once and use peer memory.
TEST(Candidate, OfTwoShotsMayPushTheSecond) {
  auto pushed = [&](const std::string &text, Transport transport) {
    std::vector<std::string> found;
    for (const Candidate &each : firstFor(text, of(rowOf(Knob::DataPlane).name + "=" +
                                                   rowOf(Knob::DataPlane).str(int64_t(transport)))))
      if (each.secondShot() == schedule::SecondShot::Put)
        found.push_back(each.str());
    return found;
  };
  EXPECT_THAT(pushed(allReduceOf(256), Transport::PeerMemory),
              ElementsAre("bulk;reduction=two-shot;second-shot=put;transport=peer-memory"));
  EXPECT_THAT(pushed(allReduceOf(256), Transport::Messages), IsEmpty());
  EXPECT_THAT(pushed(scatterOf(1024), Transport::PeerMemory), IsEmpty());
}

/// A reduction of few rows may store its partial results in the memory of the peer that adds them.
TEST(Candidate, OfAReductionOfFewRowsMayStoreAtPeers) {
  auto storedAtPeers = [&](const std::string &text) {
    std::vector<Candidate> found;
    for (const Candidate &each : firstFor(text))
      if (each.partials() == schedule::Partials::Peer)
        found.push_back(each);
    return found;
  };
  EXPECT_THAT(storedAtPeers(gatherOf(64)), IsEmpty());
  EXPECT_THAT(storedAtPeers(scatterOf(1024)), IsEmpty());
  const std::vector<Candidate> few = storedAtPeers(scatterOf(64));
  EXPECT_EQ(few.size(), 2u) << "streams";
  EXPECT_EQ(few.front().str(), "pairwise;protocol=put;partials=peer;streams=3");
  for (const Candidate &each : storedAtPeers(allReduceOf(64)))
    EXPECT_EQ(each.reduction(), schedule::Reduction::TwoShot) << each.str();
}

TEST(CandidateSearch, KeepsTheBestOfEachStage) {
  Search two(kTwoStages, configured("ring,C=chunks=2"));
  CandidateSearch &search = two.search;
  EXPECT_EQ(search.given(0).str(), "ring;chunks=2") << "by any tensor";
  EXPECT_EQ(search.given(1).str(), "ring");
  const Configurations best = search.with(1, of("bulk;launch=graph"));
  EXPECT_EQ(best.str(), "launch=graph,C=ring;chunks=2,Y=bulk");
  search.take(best);
  EXPECT_EQ(search.best().str(), best.str());
  search.take(search.with(0, of("ring;chunks=2;launch=eager")));
  EXPECT_EQ(search.with(0, of("pairwise")).str(), "C=pairwise,Y=bulk");
}

/// If there is only one stage, a candidate does not name it, so the schedule that the user has
/// specified for a named stage remains in effect.
TEST(CandidateSearch, NamesNoneOfOneStage) {
  const Search one(kFusion, configured("C=ring"));
  EXPECT_EQ(one.search.with(0, of("bulk;launch=graph")).str(), "bulk;launch=graph,C=ring");
  const Search local("fusion @local(D = 2) {\n  mesh [0 .. D)\n  %A = input f32[4, 4]\n"
                     "  %C = matmul %A, %A : f32[4, 4]\n  output %C\n}\n",
                     {});
  EXPECT_EQ(local.search.count(), 1u) << "nothing to choose is one stage";
}

/// Candidates whose copies by copy engines are spread over several streams are included only if
/// there are no other candidates.
TEST(Candidate, KeepsItsPaceWhereCopiesDriftApart) {
  auto textsFor = [&](const char *given, bool isSteady) {
    RunModes modes{.transferModes = {{}, {CopyBy::Kernel, SignalBy::Default}}};
    narrowModes(of(given), modes);
    std::set<std::string> texts;
    Search one(gatherOf(1024), configured(given));
    const Result<std::vector<JudgedCandidate>> found = one.search.find(0, modes, isSteady);
    EXPECT_TRUE(found) << found.status().message();
    for (const JudgedCandidate &each : *found)
      texts.insert(each.candidate.str());
    return texts;
  };
  const auto all = textsFor("", false), steady = textsFor("", true);
  for (const char *text : {"pairwise", "pairwise;chunks=2"}) {
    EXPECT_TRUE(all.count(text)) << text;
    EXPECT_FALSE(steady.count(text)) << text;
  }
  for (const char *text :
       {"pairwise;copies=kernel", "pairwise;placement=shared;streams=3", "batched", "bulk", "ring"})
    EXPECT_TRUE(steady.count(text)) << text;
  EXPECT_EQ(textsFor("streams=1", true), textsFor("streams=1", false)) << "one after the other";
  const char *given = "pairwise;placement=each;copies=engine";
  EXPECT_THAT(textsFor(given, true), testing::Not(IsEmpty()));
  EXPECT_EQ(textsFor(given, true), textsFor(given, false)) << "the user allows no others";
}

/// A job of one rank on the null backend, which computes nothing.
class NullRank {
public:
  NullRank()
      : mesh_(LocalMesh::create(*registry_.find("null"), {.ranks = 1})),
        counting_((*mesh_)->cluster()) {}
  test::CountingDevice &device() { return counting_.device(0); }
  PlanTimer timer() { return {counting_, 0, plans_}; }
  uint64_t copies() {
    return static_cast<NullDevice &>((*mesh_)->cluster().device(0)).counts().copies;
  }

private:
  TimedPlans plans_;
  BackendRegistry registry_ = builtinBackends();
  Result<std::unique_ptr<LocalMesh>> mesh_;
  test::CountingCluster counting_;
};

/// Small GEMMs on a GPU need no warm-up, because they do not lower its clock rates. GEMMs on CPU
/// cores need none, either.
TEST(PlanTimer, WarmsUpLargeGemms) {
  const PlanMatmul small{DType::BF16, 1024, 1024, 1024, false, {}, {}, {}, {}};
  const PlanMatmul large{DType::BF16, 4096, 4096, 4096, false, {}, {}, {}, {}};
  const auto flops = [](std::vector<PlanMatmul> gemms) {
    Plan plan;
    plan.matmuls = std::move(gemms);
    return flopsOf(plan);
  };
  NullRank rank;
  PlanTimer timer = rank.timer();
  EXPECT_EQ(timer.warmUpTimeUs(flops({small, large})), 0);
  rank.device().actAsGpu(std::chrono::microseconds(20));
  EXPECT_EQ(timer.warmUpTimeUs(flops({})), 0);
  EXPECT_EQ(timer.warmUpTimeUs(flops({small, small})), 0);
  EXPECT_EQ(timer.warmUpTimeUs(flops({small, large})), 100e3);
  EXPECT_EQ(timer.warmUpTimeUs(4.9e10), 0);
  EXPECT_EQ(timer.warmUpTimeUs(5.1e10), 100e3);
  EXPECT_EQ(timer.warmUpTimeUs(1e30), 100e3);
}

/// The numbers of bursts and of runs are as large as the budget allows. The device counts the
/// synchronizations, of which there is one per burst.
TEST(PlanTimer, FitsBurstsIntoABudget) {
  NullRank rank;
  PlanTimer timer = rank.timer();
  const std::unique_ptr<Source> source = parseSource(
      "t", "program @p mesh [0 .. 1) (%A: f32[4]) -> (%C: f32[4]) {\n  set %C, %A\n}\n");
  const Result<Compiled> compiled = compile(*source, {});
  Result<TimedPlan> plan = timer.makeReady(*makePlans(*compiled), LaunchMode::Eager, {});
  ASSERT_TRUE(plan) << plan.status().message();
  auto burstsFor = [&](double us, const BurstEffort &effort) {
    const size_t bursts = rank.device().synchronizations(), runs = rank.copies();
    EXPECT_TRUE(timer.timeBursts(*plan, us, effort));
    return std::pair(rank.device().synchronizations() - bursts, rank.copies() - runs);
  };
  using testing::Pair;
  EXPECT_THAT(burstsFor(10, {}), Pair(3, 3 * 5)) << "bursts, and runs in all";
  EXPECT_THAT(burstsFor(2e3, {}), Pair(2, 2 * 5)) << "20 ms";
  EXPECT_THAT(burstsFor(6e3, {}), Pair(1, 3));
  EXPECT_THAT(burstsFor(1e6, {}), Pair(1, 2)) << "one follows another";
  EXPECT_THAT(burstsFor(0, {.runs = 40, .bursts = 1}), Pair(1, 40));
  const BurstEffort warm{.runs = 40, .bursts = 1, .budgetUs = 40e3, .warmUpUs = 100e3};
  EXPECT_THAT(burstsFor(500, warm), Pair(5 + 1, 6 * 40)) << "of 20 ms each";
  EXPECT_THAT(burstsFor(13e3, warm), Pair(3 + 1, 4 * 3));
}

TEST(Choose, MakesOneChoiceForAllRanks) {
  std::vector<Result<ScheduleChoice>> choices = chooseOnRanks(3, kFusion, {});
  for (const Result<ScheduleChoice> &choice : choices) {
    ASSERT_TRUE(choice.isOk()) << choice.status().message();
    EXPECT_EQ(choice->schedule.str(), choices[0]->schedule.str());
    EXPECT_EQ(choice->ranks, 3);
    EXPECT_EQ(choice->fusion, "small");
  }
  // The chosen candidate was timed, and no other finalist was faster.
  const StageTrials &trials = choices[0]->stages.at(0);
  const std::vector<JudgedCandidate> &all = trials.candidates;
  const size_t timed = trials.timed(), finalists = trials.finalists;
  EXPECT_GE(timed, 3u);
  EXPECT_LE(timed, TimingLimits().most);
  EXPECT_NE(finalists, 1u) << "if none is close to the fastest, none is timed again";
  EXPECT_LE(finalists, kMostFinalists);
  for (size_t i = 0; i < timed; ++i)
    ASSERT_TRUE(all[i].burstUs) << "those that were timed come first";
  for (size_t i = 0; i < finalists; ++i)
    EXPECT_GE(*all[i].burstUs, *all[0].burstUs);
}

/// Stages are varied one after another, and all ranks choose the same schedule.
TEST(Choose, ChoosesForEachStage) {
  ChooseOptions options;
  options.timed = 2;
  std::vector<Result<ScheduleChoice>> choices = chooseOnRanks(3, kTwoStages, options);
  for (const Result<ScheduleChoice> &choice : choices) {
    ASSERT_TRUE(choice.isOk()) << choice.status().message();
    EXPECT_EQ(choice->schedule.str(), choices[0]->schedule.str());
  }
  const ScheduleChoice &choice = *choices[0];
  ASSERT_EQ(choice.schedule.stages.size(), 2u);
  EXPECT_EQ(choice.schedule.stages[0].tensor, "C");
  EXPECT_EQ(choice.schedule.stages[1].tensor, "Y");
  ASSERT_EQ(choice.stages.size(), 2u);
  EXPECT_EQ(choice.stages[0].stage, "C");
  EXPECT_EQ(choice.stages[1].stage, "Y");
  const std::string first = choice.stages[0].best().schedule.stages[0].config.str();
  for (const JudgedCandidate &each : choice.stages[1].candidates)
    EXPECT_EQ(each.schedule.stages[0].config.str(), first) << "it keeps what is best so far";
  EXPECT_THAT(explain(choice), HasSubstr(" candidates for @two, stage of %Y, on 3 ranks;"));
  Result<Configurations> read = Configurations::parse(choice.schedule.str());
  ASSERT_TRUE(read.isOk()) << read.status().message();
  EXPECT_EQ(read->str(), choice.schedule.str());
}

/// Chooses for a reduce-scatter, and for an all-reduce with one shot or two.
TEST(Choose, ChoosesForReductions) {
  ChooseOptions options;
  options.timed = 2;
  const std::string scatter = kReduction;
  const std::string allReduce =
      std::string(scatter).replace(scatter.find("DIDx{D}, 64, 8"), 7, "D");
  std::set<std::string> schedules, shots;
  for (const std::string &text : {scatter, allReduce}) {
    Result<ScheduleChoice> choice = std::move(chooseOnRanks(3, text, options)[0]);
    ASSERT_TRUE(choice.isOk()) << choice.status().message();
    EXPECT_EQ(choice->stages[0].timed(), 2u);
    for (const JudgedCandidate &each : choice->stages[0].candidates) {
      if (text == scatter)
        schedules.insert(each.candidate.preset().str());
      else
        shots.insert(rowOf(Knob::Reduction).str(each.candidate.valueOf(Knob::Reduction)));
    }
  }
  EXPECT_THAT(schedules, ElementsAre("bulk", "collective", "pairwise", "sequential"));
  EXPECT_THAT(shots, ElementsAre("one-shot", "two-shot"));
}

TEST(Choose, TakesTheTransportThatIsGiven) {
  for (const auto &[given, sends] :
       {std::pair("", false), {"protocol=put", false}, {"transport=messages", true}}) {
    ChooseOptions options;
    options.given.schedule = configured(given);
    options.timed = 1;
    const auto all = chooseOnRanks(2, kReduction, options, test::messageBackend());
    ASSERT_TRUE(all[0].isOk()) << all[0].status().message();
    for (const JudgedCandidate &each : all[0]->stages.at(0).candidates)
      EXPECT_EQ(transportOf(each.schedule.all, Transport::PeerMemory) == Transport::Messages, sends)
          << each.schedule.str();
  }
}

TEST(Choose, TimesAsManyAsItIsAskedTo) {
  ChooseOptions options;
  options.timed = 5;
  Result<ScheduleChoice> choice = std::move(chooseOnRanks(2, kFusion, options)[0]);
  ASSERT_TRUE(choice.isOk()) << choice.status().message();
  EXPECT_EQ(choice->stages[0].timed(), 5u);
  options.timed = 1000;
  choice = std::move(chooseOnRanks(2, kFusion, options)[0]);
  EXPECT_EQ(choice->stages[0].timed(), choice->stages[0].candidates.size());
}

/// A candidate may use gigabytes of memory, so only a few remain prepared at the same time.
TEST(Choose, HoldsTheMemoryOfAFewCandidates) {
  std::vector<TimedPlans> plans(2); // must outlive the cluster
  BackendRegistry registry = builtinBackends();
  auto mesh = LocalMesh::create(*registry.find("cpu"), {.ranks = 2});
  ASSERT_TRUE(mesh.isOk());
  test::CountingCluster counting((*mesh)->cluster());
  ChooseOptions options;
  options.timed = 1000;
  Status status = (*mesh)->onEveryRank([&](int64_t rank) {
    PlanTimer timer(counting, rank, plans[static_cast<size_t>(rank)]);
    Result<ScheduleChoice> choice = choose("t.braid", kFusion, options, timer);
    EXPECT_TRUE(!choice || choice->stages[0].timed() > 2 * kMostFinalists);
    return choice.status();
  });
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_LE(counting.device(0).mostHeld(), kMostFinalists + 1);
  EXPECT_LE(counting.device(1).mostHeld(), kMostFinalists + 1);
}

/// Returns a made-up choice between twelve candidates, `timed` of which were timed.
ScheduleChoice choiceOf(size_t timed) {
  StageTrials trials{.finalists = timed / 2, .rounds = 7};
  for (size_t i = 0; i < 12; ++i) {
    JudgedCandidate judged{.candidate = of("pairwise"), .schedule = {of("pairwise")}};
    judged.predictedUs = 112 - double(i);
    if (i < timed)
      judged.burstUs = 50;
    trials.candidates.push_back(judged);
  }
  ScheduleChoice choice;
  choice.stages = {trials};
  return choice;
}

TEST(Choose, ExplainsWhatWasTimedAndAFewMore) {
  const std::string text = explain(choiceOf(4), 3);
  EXPECT_EQ(llvm::StringRef(text).count("  pairwise"), 4u + 3) << "one is chosen\n" << text;
  EXPECT_THAT(
      text,
      HasSubstr(
          "\n  and 5 more\n"
          "  timed: 4 of 12 in 0.00 s, starting with one of each combination of schedule, "
          "protocol and transfer mode; the fastest 2 were then timed in alternation 7 more times\n"
          "  chosen: pairwise: the fastest of the 4 that were timed\n"));
  EXPECT_THAT(text, HasSubstr("\n   predicted    measured    error  candidate\n"
                              "       112.0        50.0   +124 %  pairwise  <-\n"));
  EXPECT_THAT(text, HasSubstr("\n       108.0           -           pairwise\n"));
  EXPECT_THAT(explain(choiceOf(4), 12), testing::Not(HasSubstr(" more\n")));
  EXPECT_THAT(explain(choiceOf(0), 3), testing::Not(HasSubstr("timed: ")));
  EXPECT_EQ(choiceOf(0).stages[0].reason(), "predicted to be the fastest");
}

TEST(Choose, KeepsWhatIsGiven) {
  ChooseOptions options;
  options.given.schedule = configured("ring;protocol=put");
  options.timed = 0;
  Result<ScheduleChoice> choice = std::move(chooseOnRanks(3, kFusion, options)[0]);
  ASSERT_TRUE(choice.isOk()) << choice.status().message();
  EXPECT_GT(choice->stages[0].candidates.size(), 1u);
  for (const JudgedCandidate &each : choice->stages[0].candidates) {
    EXPECT_THAT(each.candidate.str(), testing::StartsWith("ring;protocol=put"));
    EXPECT_FALSE(each.burstUs);
  }
  EXPECT_THAT(choice->reason, HasSubstr("predicted to be the fastest"));
}

TEST(Choose, SaysWhatItCannotLower) {
  ChooseOptions options;
  options.given.schedule = configured("chunks=700");
  Result<ScheduleChoice> choice = std::move(chooseOnRanks(3, kFusion, options)[0]);
  EXPECT_EQ(choice.status().code(), StatusCode::BadInput);
  EXPECT_THAT(choice.status().message(), HasSubstr("into 700 chunks: "));
}

/// A choice reuses the measurements of an earlier one, even if it allows other schedules.
TEST(Choose, KeepsAndAddsToItsModel) {
  std::string folder = testing::TempDir() + "choose_test_cache" + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  ChooseOptions options;
  options.cacheFolder = folder;
  options.timed = 1; // prevents reuse of an earlier job's choice
  options.given.schedule = configured("sequential");
  Result<ScheduleChoice> first = std::move(chooseOnRanks(2, kFusion, options)[0]);
  ASSERT_TRUE(first.isOk()) << first.status().message();
  EXPECT_THAT(first->source, HasSubstr("measured in"));
  options.given.schedule = configured("pairwise");
  Result<ScheduleChoice> second = std::move(chooseOnRanks(2, kFusion, options)[0]);
  EXPECT_THAT(second->source, testing::StartsWith("from " + folder));
  EXPECT_THAT(second->source, HasSubstr(", measured in")) << "of a block";
  options.given.schedule = configured("sequential");
  Result<ScheduleChoice> third = std::move(chooseOnRanks(2, kFusion, options)[0]);
  EXPECT_THAT(third->source, testing::Not(HasSubstr("GEMMs"))) << "all is known";
  std::filesystem::remove_all(folder);
}

/// A job that only sends messages does not measure peer-memory access; the next job does.
TEST(Choose, MeasuresPeersAfterAJobOfMessagesAlone) {
  const std::string folder = testing::TempDir() + "choose_test_peers" + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  ChooseOptions options;
  options.cacheFolder = folder;
  options.timed = 0;
  for (const char *given : {"transport=messages", ""}) {
    options.given.schedule = configured(given);
    const auto all = chooseOnRanks(2, kReduction, options, test::messageBackend());
    ASSERT_TRUE(all[0].isOk()) << all[0].status().message();
    EXPECT_THAT(all[0]->source, HasSubstr("measured in")) << given;
  }
  std::filesystem::remove_all(folder);
}

/// An earlier choice is reused without trials if its options were equal and its time budget was at
/// least as large.
TEST(Choose, TakesWhatIsKnown) {
  const std::string folder = testing::TempDir() + "choose_test_known" + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  ChooseOptions options;
  options.cacheFolder = folder;
  options.seconds = 0.2;
  auto isKnown = [&](const std::string &text) {
    const std::vector<Result<ScheduleChoice>> choices = chooseOnRanks(2, text, options);
    for (const Result<ScheduleChoice> &choice : choices)
      EXPECT_EQ(choice->origin, choices[0]->origin);
    return choices[0]->origin == "known";
  };
  ScheduleChoice first = *chooseOnRanks(2, kFusion, options)[0];
  EXPECT_EQ(first.origin, "");
  const std::vector<Result<ScheduleChoice>> again = chooseOnRanks(2, kFusion, options);
  for (const Result<ScheduleChoice> &choice : again) {
    EXPECT_EQ(choice->origin, "known");
    EXPECT_EQ(choice->schedule.str(), first.schedule.str());
    EXPECT_EQ(choice->fusion, "small");
  }
  EXPECT_THAT(explain(*again[0]), testing::StartsWith("braid: auto: known for @small on 2 ranks: " +
                                                      first.schedule.str() + ", from " + folder));
  EXPECT_TRUE(isKnown("// Other words.\n" + kFusion));
  options.given.schedule = configured("protocol=put");
  EXPECT_FALSE(isKnown(kFusion)) << "another question";
  EXPECT_TRUE(isKnown(kFusion));
  options.given = {};
  options.seconds = 0.3;
  EXPECT_FALSE(isKnown(kFusion)) << "there is more time than there was";
  options.timed = 1;
  EXPECT_FALSE(isKnown(kFusion)) << "it is asked to be timed";
  std::filesystem::remove_all(folder);
}

/// If the time budget is 0, a fusion with one stage uses the schedule measured for similar
/// sizes, or else the default. A fusion with several stages uses the schedule that a stored model
/// predicts to be fastest.
TEST(Choose, MeasuresNothingWithoutTime) {
  const std::string folder = testing::TempDir() + "choose_test_no_time" + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  ChooseOptions options;
  options.cacheFolder = folder;
  auto choiceFor = [&](const std::string &text, double seconds) {
    options.seconds = seconds;
    std::vector<Result<ScheduleChoice>> choices = chooseOnRanks(2, text, options);
    EXPECT_EQ(choices[0]->schedule.str(), choices[1]->schedule.str());
    return std::move(*choices[0]);
  };
  EXPECT_THAT(choiceFor(kFusion, 0).reason, HasSubstr("the default schedule"));
  EXPECT_THAT(choiceFor(kTwoStages, 0).reason, HasSubstr("the default schedule"));
  EXPECT_EQ(choiceFor(kTwoStages, 0).schedule.str(), "C=pairwise,Y=pairwise");
  const std::string best = choiceFor(kFusion, 0.05).schedule.str();
  const ScheduleChoice near = choiceFor(sized(96), 0);
  EXPECT_EQ(near.schedule.str(), best);
  EXPECT_THAT(near.reason, HasSubstr("similar sizes"));
  EXPECT_THAT(choiceFor(kReduction, 0).reason, HasSubstr("the default schedule"));
  const ScheduleChoice predicted = choiceFor(kTwoStages, 0);
  EXPECT_EQ(predicted.stages.at(1).timed(), 0u);
  EXPECT_THAT(predicted.reason, HasSubstr("predicted to be the fastest"));
  std::filesystem::remove_all(folder);
}

/// Cache entries in the format of another version are ignored, and the trials are repeated.
TEST(Choose, MeasuresAnewWhatItDoesNotUnderstand) {
  const std::string folder = testing::TempDir() + "choose_test_unknown" + std::to_string(getpid());
  for (const char *bad : {"", "2.000", "soon ring", "2.000 rings", "2.000 chunks=700"}) {
    std::filesystem::remove_all(folder);
    ChooseOptions options;
    options.cacheFolder = folder;
    options.seconds = 0.01;
    ASSERT_TRUE(chooseOnRanks(2, kFusion, options)[0]);
    for (const auto &file : std::filesystem::directory_iterator(folder)) {
      Result<MeasurementFile> kept = MeasurementFile::decode(*readFile(file.path(), 1 << 20));
      if (!kept) // the lock file
        continue;
      for (auto &[key, value] : kept->entries)
        if (std::string_view(key).starts_with("choice"))
          value = bad;
      std::ofstream(file.path()) << kept->encode();
    }
    Result<ScheduleChoice> choice = std::move(chooseOnRanks(2, kFusion, options)[0]);
    ASSERT_TRUE(choice) << choice.status().message();
    EXPECT_EQ(choice->origin, "") << bad;
  }
  std::filesystem::remove_all(folder);
}

TEST(Choose, EndsItsTrialsInTime) {
  ChooseOptions options;
  options.seconds = 0.05;
  Result<ScheduleChoice> choice = std::move(chooseOnRanks(2, kTwoStages, options)[0]);
  double seconds = 0;
  for (const StageTrials &each : choice->stages)
    seconds += each.seconds;
  EXPECT_LT(seconds, 10) << "each turn ends with one trial at most that is late";
}

} // namespace
} // namespace braid
