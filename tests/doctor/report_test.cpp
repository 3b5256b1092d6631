//===- tests/doctor/report_test.cpp - findings as text, JSON and one line, and merged ---------===//

#include "api/doctor/report.h"

#include "api/doctor/between_ranks.h"
#include "tests/doctor/doctors_machine.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace braid::test {
namespace {

using namespace doctor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const Finding kOk{"gpu", "found", doctor::Severity::Ok, "GPU 0", ""};
const Finding kNote{"power", "capped", doctor::Severity::Note, "little power", "more"};
const Finding kProblem{"driver", "missing", doctor::Severity::Problem, "none", "install"};

TEST(DoctorReport, TextHasLinesAndWhatToDo) {
  EXPECT_EQ(reportText({}, {kOk, kNote, kProblem}, false), "ok       gpu     GPU 0\n"
                                                           "note     power   little power\n"
                                                           "                 -> more\n"
                                                           "problem  driver  none\n"
                                                           "                 -> install\n"
                                                           "1 problem, 1 note\n");
}

TEST(DoctorReport, TextEndsWithWhatRuns) {
  EXPECT_THAT(reportText({}, {kNote}, false),
              HasSubstr("0 problems, 1 note: programs run on cpu ranks here\n"));
  DoctorsMachine machine;
  EXPECT_THAT(reportText(machine.facts(), {}, false),
              HasSubstr("0 problems, 0 notes: programs run on GPUs and cpu ranks here\n"));
  machine.hasBackends = false; // a build without CUDA
  EXPECT_THAT(reportText(machine.facts(), {}, false),
              HasSubstr("0 problems, 0 notes: programs run on cpu ranks here\n"));
}

TEST(DoctorReport, ColoursAreForTerminals) {
  EXPECT_THAT(reportText({}, {kProblem}, true), HasSubstr("\033[31mproblem\033[0m"));
  EXPECT_THAT(reportText({}, {kProblem}, false), Not(HasSubstr("\033")));
}

TEST(DoctorReport, OnlyProblemsFail) {
  EXPECT_EQ(exitCodeOf({kOk, kNote}), 0);
  EXPECT_EQ(exitCodeOf({kOk, kProblem, kNote}), 4);
  EXPECT_EQ(exitCodeOf({}), 0);
}

TEST(DoctorReport, JsonHasTheSame) {
  DoctorsMachine machine;
  const auto json = nlohmann::json::parse(reportJson(machine.facts(), {kProblem}));
  EXPECT_EQ(json["exit_code"], 4);
  EXPECT_EQ(json["gpus"][1]["pci"], "0000:2a:00.0");
  EXPECT_EQ(json["lines"][0]["check"], "driver");
  EXPECT_EQ(json["lines"][0]["line"], "missing");
  EXPECT_EQ(json["lines"][0]["severity"], "problem");
  EXPECT_EQ(json["lines"][0]["seen"], "none");
  EXPECT_EQ(json["lines"][0]["advice"], "install");
}

TEST(DoctorReport, OneLineHasBoth) {
  EXPECT_EQ(inOneLine(kProblem), "none; install");
  EXPECT_EQ(inOneLine(kOk), "GPU 0");
}

TEST(DoctorReport, FindingsSurviveTheWay) {
  const auto findings = decodeFindings(encodeFindings({kOk, kProblem}));
  ASSERT_TRUE(findings);
  ASSERT_EQ(findings->size(), 2u);
  EXPECT_EQ((*findings)[1].id(), "driver.missing");
  EXPECT_EQ((*findings)[1].severity, doctor::Severity::Problem);
  EXPECT_EQ((*findings)[1].advice, "install");
}

TEST(DoctorReport, OtherTextsAreNoFindings) {
  for (const char *text : {"", "{}", "[1]", "[{}]", "[{\"check\":1}]",
                           R"([{"check":"a","line":"b","severity":"bad","seen":"","advice":""}])"})
    EXPECT_EQ(decodeFindings(text).status().message(),
              "expected what a rank found, got something else")
        << text;
}

TEST(DoctorReport, FactsOfARankSurviveTheWay) {
  RankFacts rank;
  rank.variables = {{"NCCL_P2P_DISABLE", "1"}, {"CUDA_VISIBLE_DEVICES", ""}};
  rank.pidNamespace = kFirstPidNamespace;
  rank.gpu = "0000:18:00.0";
  const auto other = RankFacts::decode(rank.encode());
  ASSERT_TRUE(other);
  EXPECT_EQ(other->variables, rank.variables);
  EXPECT_EQ(other->pidNamespace, rank.pidNamespace);
  EXPECT_EQ(other->ipcNamespace, 0u);
  EXPECT_EQ(other->gpu, "0000:18:00.0");
}

TEST(DoctorReport, ARankTakesTheGpuOfItsNumberOrTheOnlyOne) {
  DoctorsMachine machine;
  EXPECT_EQ(machine.facts().gpuOfRank(1), "0000:2a:00.0");
  EXPECT_EQ(machine.facts().gpuOfRank(2), "");
  machine.cuda["devices"] = "1";
  EXPECT_EQ(machine.facts().gpuOfRank(1), "0000:18:00.0");
}

TEST(DoctorReport, JsonSaysWhichGpusAreHidden) {
  DoctorsMachine machine;
  machine.variables["CUDA_VISIBLE_DEVICES"] = "1";
  machine.cuda["devices"] = "1";
  machine.cuda["0.pci"] = "0000:2A:00.0";
  const auto gpus = nlohmann::json::parse(reportJson(machine.facts(), {}))["gpus"];
  EXPECT_EQ(gpus[0]["hidden"], true);
  EXPECT_TRUE(gpus[0]["cuda"].is_null());
  EXPECT_EQ(gpus[1]["hidden"], false);
  EXPECT_EQ(gpus[1]["cuda"], 0);
}

TEST(DoctorReport, GpusAreInCudasOrder) {
  DoctorsMachine machine;
  machine.variables["CUDA_VISIBLE_DEVICES"] = "1,0";
  machine.cuda["0.pci"] = "0000:2A:00.0";
  machine.cuda["1.pci"] = "0000:18:00.0";
  EXPECT_THAT(shownGpus(machine.facts()), ElementsAre(1, 0));
  EXPECT_EQ(gpuName(machine.facts(), 1), "GPU 0 (0000:2a:00.0)");
  // Without CUDA the variable says it, also by the begin of an identity.
  machine.hasBackends = false;
  machine.variables["CUDA_VISIBLE_DEVICES"] = "GPU-1111";
  EXPECT_THAT(shownGpus(machine.facts()), ElementsAre(1));
  EXPECT_TRUE(isHidden(machine.facts(), "0000:18:00.0"));
}

TEST(DoctorReport, ValuesMoveNoCursor) { EXPECT_EQ(forTerminal("a\x1b[2J\n"), "a\\x1B[2J\\x0A"); }

TEST(DoctorReport, FactsOfABackendSurviveTheWay) {
  const BackendFacts facts = {{"devices", "2"}, {"why none", "\"'\n"}};
  const auto other = decodeBackendFacts(encodeBackendFacts(facts));
  ASSERT_TRUE(other);
  EXPECT_EQ(*other, facts);
  for (const char *text : {"", "[]", "1", R"({"a":1})", R"({"a":{}})"})
    EXPECT_EQ(decodeBackendFacts(text).status().message(),
              "expected what a backend knows, got something else")
        << text;
}

TEST(DoctorReport, OtherTextsAreNoFacts) {
  for (const char *text :
       {"", "[]", "{}", R"({"variables":{"A":1},"pid_namespace":1,"ipc_namespace":1})",
        R"({"variables":{},"pid_namespace":1,"ipc_namespace":1,"gpu":0})",
        R"({"variables":{},"pid_namespace":1,"ipc_namespace":1})",
        R"({"variables":{},"pid_namespace":-1,"ipc_namespace":1})",
        R"({"variables":{},"pid_namespace":1})"})
    EXPECT_EQ(RankFacts::decode(text).status().message(),
              "expected what a rank says about itself, got something else")
        << text;
}

TEST(DoctorReport, WhatSeveralRanksFindIsThereOnce) {
  const std::vector<Finding> merged =
      mergeFindings({{kOk, kProblem}, {kOk, kNote, kProblem}, {kOk}});
  ASSERT_EQ(merged.size(), 3u);
  EXPECT_EQ(merged[0].check, "gpu"); // in the table's order
  EXPECT_THAT(merged[0].ranks, IsEmpty());
  EXPECT_EQ(merged[1].check, "driver");
  EXPECT_THAT(merged[1].ranks, ElementsAre(0, 1));
  EXPECT_THAT(merged[2].ranks, ElementsAre(1));
  const std::string text = reportText({}, merged, false);
  EXPECT_THAT(text, HasSubstr("ranks 0, 1: none"));
  EXPECT_THAT(text, HasSubstr("rank 1: little power"));
}

} // namespace
} // namespace braid::test
