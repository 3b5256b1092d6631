//===- tests/property/messages_test.cpp - programs with messages, compared with the reference -===//
//
// Tests the executor, lowering and Plans for messages without a GPU: ranks exchange messages with
// the guarantees of groups and collectives (tests/support/message_cluster.h).
//
//===----------------------------------------------------------------------------------------===//

#include "api/compile/plans.h"
#include "runtime/job/bootstrap/client.h"
#include "tests/support/configured.h"
#include "tests/support/local_mesh.h"
#include "tests/support/message_cluster.h"
#include "tests/support/random_fusion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

namespace braid::test {
namespace {

/// Counts of commands in the Plans.
struct Seen {
  int64_t groups = 0, collectives = 0;
};

Status runByMessages(const std::string &text, CompileOptions compileOptions, RunOptions options,
                     Seen &seen) {
  static const Backend backend = messageBackend();
  compileOptions.transport = Transport::Messages;
  for (Knob knob : kKnobsOfPeerMemory)
    compileOptions.schedule.all.set(knob, std::nullopt);
  options.cluster = {.timeout = std::chrono::seconds(30)};
  options.verify = true;
  std::unique_ptr<Source> source = parseSource("drawn.braid", text);
  Result<Compiled> compiled = compile(*source, compileOptions);
  if (!compiled)
    return compiled.status().annotated(source->diags.str());
  Result<std::vector<Plan>> plans = makePlans(*compiled);
  if (!plans)
    return plans.status();
  for (const Plan &plan : *plans) {
    seen.groups += static_cast<int64_t>(plan.groups.size());
    seen.collectives += static_cast<int64_t>(plan.collectives.size());
  }
  const Result<RunReport> report = run(*compiled, *plans, backend, options);
  return report ? Status::ok() : report.status();
}

TEST(Messages, EveryRandomCaseEqualsTheReference) {
  const RandomKinds all[] = {
      {}, {.sums = true}, {.functions = true}, {.sums = true, .functions = true}, {.whole = true}};
  Seen seen;
  for (const RandomKinds &kinds : all)
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      const RandomCase drawn = randomCase(seed, kinds);
      const Status status = runByMessages(drawn.text, drawn.compile, drawn.run, seen);
      ASSERT_TRUE(status.isOk()) << drawn.str() << status.message();
    }
  EXPECT_GT(seen.groups, 1000);
  EXPECT_GT(seen.collectives, 20);
}

TEST(Messages, EveryScheduleOfTheExamplesEqualsTheReference) {
  const std::vector<std::pair<std::string, std::string>> parameters = {
      {"ag_matmul", "D=3,M=12,K=5,N=4"},
      {"ag_matmul_collective", "D=2,S=6,M=24,K=5,N=4"},
      {"matmul_reduce_scatter", "D=3,M=12,K=6,N=4"},
      {"matmul_all_reduce", "D=2,M=12,K=6,N=4"}};
  std::set<std::string> run;
  for (const auto &[name, values] : parameters)
    for (const Preset &preset : presets())
      for (const char *rest : {";streams=1", ";chunks=2;streams=2", ";streams=3"}) {
        std::stringstream text;
        text << std::ifstream("examples/" + name + ".braid").rdbuf();
        CompileOptions options{.schedule = configured(preset.name.str() + rest)};
        llvm::SmallVector<llvm::StringRef> each;
        llvm::StringRef(values).split(each, ',');
        for (llvm::StringRef parameter : each) {
          int64_t value = 0;
          parameter.split('=').second.getAsInteger(10, value);
          options.parameters.emplace_back(parameter.split('=').first.str(), value);
        }
        Seen seen;
        const Status status = runByMessages(text.str(), options, {.iterations = 5}, seen);
        // Some stages do not support the schedule.
        const bool isRefused = status.code() == StatusCode::BadInput;
        EXPECT_TRUE(status.isOk() || isRefused) << name << preset.name.str() << status.message();
        EXPECT_TRUE(isRefused || seen.groups + seen.collectives > 0);
        if (status.isOk())
          run.insert(name + " " + preset.name.str());
      }
  EXPECT_TRUE(run.count("ag_matmul_collective collective"));
  EXPECT_TRUE(run.count("matmul_reduce_scatter collective"));
  EXPECT_TRUE(run.count("matmul_all_reduce collective"));
  EXPECT_GT(run.size(), 15u);
}

} // namespace
} // namespace braid::test
