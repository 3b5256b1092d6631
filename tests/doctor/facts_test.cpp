//===- tests/doctor/facts_test.cpp - the names of GPUs, and the report ------------------------===//

#include "api/doctor/check.h"
#include "tests/doctor/doctors_machine.h"

#include <gmock/gmock.h>

namespace braid::test {
namespace {

using namespace doctor;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(DoctorFacts, GpusAreInCudasOrder) {
  DoctorsMachine machine;
  machine.variables["CUDA_VISIBLE_DEVICES"] = "1,0";
  machine.cuda["0.pci"] = "0000:2A:00.0";
  machine.cuda["1.pci"] = "0000:18:00.0";
  const std::vector<Gpu> gpus = machine.facts().visibleGpus();
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].name, "GPU 0 (0000:2a:00.0)");
  EXPECT_EQ(gpus[1].name, "GPU 1 (0000:18:00.0)");
}

const Finding kOk{"gpu", "found", doctor::Severity::Ok, "GPU 0", ""};
const Finding kNote{"power", "capped", doctor::Severity::Note, "little power", "more"};
const Finding kProblem{"driver", "missing", doctor::Severity::Problem, "none", "install"};

TEST(DoctorReport, TextHasLinesAndWhatToDo) {
  EXPECT_EQ(reportText({}, {kOk, kNote, kProblem}), "ok       gpu     GPU 0\n"
                                                    "note     power   little power\n"
                                                    "                 -> more\n"
                                                    "problem  driver  none\n"
                                                    "                 -> install\n"
                                                    "1 problem, 1 note\n");
}

TEST(DoctorReport, TextEndsWithWhatRuns) {
  DoctorsMachine machine;
  EXPECT_THAT(reportText(machine.facts(), {}),
              HasSubstr("0 problems, 0 notes: programs can run here on GPUs and CPUs\n"));
  machine.hasBackends = false; // a build without CUDA
  EXPECT_THAT(reportText(machine.facts(), {}),
              HasSubstr("0 problems, 0 notes: programs can run here on CPUs\n"));
}

TEST(DoctorReport, JsonHasTheSame) {
  DoctorsMachine machine;
  machine.variables["CUDA_VISIBLE_DEVICES"] = "1";
  machine.cuda["devices"] = "1";
  machine.cuda["0.pci"] = "0000:2A:00.0";
  const std::string text = jsonText([&](JsonWriter &json) {
    json.object([&] { writeMembers(json, machine.facts(), {kNote, kProblem}); });
  });
  EXPECT_THAT(text, HasSubstr(R"({"exit_code":4,"gpus":[)"));
  EXPECT_THAT(text, HasSubstr(R"("pci":"0000:2a:00.0","cuda":0,"hidden":false})"));
  EXPECT_THAT(text, HasSubstr(R"("cuda":null,"hidden":true})"));
  EXPECT_THAT(text, HasSubstr(R"({"check":"driver","line":"missing",)"
                              R"("severity":"problem","seen":"none","advice":"install"}])"));
  EXPECT_EQ(exitCodeOf({kOk, kNote}), 0);
}

TEST(DoctorReport, ValuesMoveNoCursor) {
  DoctorsMachine machine;
  machine.variables["NCCL_P2P_DISABLE"] = "a\x1b[2J";
  EXPECT_THAT(reportText({}, runChecks(machine.facts())), Not(HasSubstr("\x1b")));
}

} // namespace
} // namespace braid::test
