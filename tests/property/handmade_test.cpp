//===- tests/property/handmade_test.cpp - the checker's verdicts, compared with executions ----===//
//
// Generates random programs directly, without lowering. A program that the checker accepts must
// produce the same bytes in every interleaving, with every number of queues for which it was
// accepted, and regardless of earlier runs. If the checker rejects a program because of a deadlock,
// a transfer or an unwritten output, the error must be visible when the program runs.
//
// BRAID_CASES=n draws n programs instead of 5,000. BRAID_CASE=seed runs and prints a single
// program. With BRAID_FREE=1, commands run in an uncontrolled order (for ThreadSanitizer);
// otherwise, the order is random but reproducible.
//
//===----------------------------------------------------------------------------------------===//

#include "api/compile/plans.h"
#include "tests/support/local_mesh.h"
#include "tests/support/number_from.h"
#include "tests/support/random_program.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>

namespace braid::test {
namespace {

/// The caller's memory for one run on all ranks.
class Tensors {
public:
  Tensors(LocalMesh &mesh, uint64_t seed) {
    for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
      const Plan &plan = mesh.plan(rank);
      RunArguments arguments;
      for (size_t i = 0; i < plan.inputs.size(); ++i) {
        float *data = allocate(plan.buffers[plan.inputs[i]].bytes);
        for (int64_t j = 0; j < plan.buffers[plan.inputs[i]].bytes / 4; ++j)
          data[j] = static_cast<float>((seed * 31 + static_cast<uint64_t>(rank * 7 + j * j)) % 17);
        arguments.inputs.push_back(data);
      }
      for (uint32_t buffer : plan.outputs) {
        sizes_.push_back(static_cast<size_t>(plan.buffers[buffer].bytes));
        arguments.outputs.push_back(allocate(plan.buffers[buffer].bytes));
        std::memset(arguments.outputs.back(), 0xff, sizes_.back());
        outputs_.push_back(arguments.outputs.back());
      }
      arguments_.push_back(std::move(arguments));
    }
  }

  llvm::ArrayRef<RunArguments> arguments() const { return arguments_; }
  std::string outputs() const {
    std::string all;
    for (size_t i = 0; i < outputs_.size(); ++i)
      all.append(static_cast<const char *>(outputs_[i]), sizes_[i]);
    return all;
  }

private:
  float *allocate(int64_t bytes) {
    memory_.push_back(std::make_unique<std::byte[]>(static_cast<size_t>(bytes) + 64));
    auto address = reinterpret_cast<uintptr_t>(memory_.back().get());
    return reinterpret_cast<float *>((address + 63) / 64 * 64);
  }

  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::vector<RunArguments> arguments_;
  std::vector<void *> outputs_;
  std::vector<size_t> sizes_;
};

struct Judged {
  std::string text;
  std::unique_ptr<Source> source;
  std::optional<Compiled> compiled;
  std::optional<CheckReport> report;
};

/// Draws, parses and checks a program. All drawn programs must be valid.
Judged judge(uint64_t seed) {
  Judged judged{randomProgram(seed), nullptr, std::nullopt, std::nullopt};
  judged.source = parseSource("drawn.braid", judged.text);
  Result<Compiled> compiled = compile(*judged.source, {});
  EXPECT_TRUE(compiled) << judged.source->diags.str() << judged.text;
  if (!compiled)
    return judged;
  judged.compiled = std::move(*compiled);
  Result<CheckReport> report = checkProgram(*judged.compiled, {});
  EXPECT_TRUE(report) << report.status().message() << judged.source->diags.str() << judged.text;
  if (report)
    judged.report = std::move(*report);
  return judged;
}

struct Explored {
  Status status;
  bool isStable = true; ///< true if all batches gave equal results
};

/// Executes several batches of runs, issued back to back with different inputs. The last run of a
/// batch has the inputs of the first, so its outputs must be equal. Compares the outputs of each
/// batch with `expected`, or stores them there if it is empty.
Explored explore(const Compiled &compiled, const ClusterOptions &options, int batches,
                 std::vector<std::string> &expected) {
  BackendRegistry registry = builtinBackends();
  auto mesh = LocalMesh::create(*registry.find("cpu"), options);
  if (!mesh)
    return {mesh.status()};
  if (Status status = (*mesh)->prepare(compiled); !status.isOk())
    return {status};
  Explored explored;
  for (int batch = 0; batch < batches; ++batch) {
    std::vector<Tensors> runs;
    for (uint64_t inputs : {1, 2, 3, 1})
      runs.emplace_back(**mesh, inputs);
    for (const Tensors &run : runs)
      (*mesh)->run(run.arguments());
    explored.status = (*mesh)->synchronize();
    if (!explored.status.isOk())
      return explored;
    std::vector<std::string> outputs;
    for (const Tensors &run : runs)
      outputs.push_back(run.outputs());
    if (expected.empty())
      expected = outputs;
    explored.isStable &= outputs == expected && outputs.front() == outputs.back();
  }
  return explored;
}

ClusterOptions optionsFor(const Judged &judged, uint32_t queues, uint64_t seed) {
  ClusterOptions options;
  options.ranks = judged.compiled->program->ranks();
  options.queues = queues;
  if (!numberFrom("BRAID_FREE", 0))
    options.scheduleSeed = seed;
  return options;
}

/// Returns a description of how an accepted program fails, or an empty string if it does not.
std::string howItFails(const Judged &judged, uint64_t seed) {
  std::vector<std::string> expected;
  // A program that is safe with one queue is safe with any number. If it is safe with two, it may
  // be unsafe with three, because other streams share queues.
  uint32_t smallest = judged.report->queues;
  for (uint32_t queues : {0u, smallest, smallest == 1 ? 2u : smallest}) {
    Explored explored = explore(*judged.compiled, optionsFor(judged, queues, seed), 5, expected);
    if (!explored.status.isOk())
      return explored.status.message();
    if (!explored.isStable)
      return "results differ with " + std::to_string(queues) + " queues";
  }
  return "";
}

/// Returns true if running a rejected program reveals its error.
bool isGuilty(const Judged &judged, uint64_t seed) {
  std::vector<std::string> expected;
  for (uint64_t i = 0; i < 4; ++i) {
    Explored explored = explore(*judged.compiled, optionsFor(judged, 0, seed + i), 5, expected);
    if (!explored.status.isOk() || !explored.isStable)
      return true;
  }
  return false;
}

bool deadlocks(const Judged &judged, uint32_t queues, uint64_t seed) {
  std::vector<std::string> expected;
  Explored explored = explore(*judged.compiled, optionsFor(judged, queues, seed), 1, expected);
  return explored.status.code() == StatusCode::TimedOut;
}

/// Returns true if some element of an output still has its initial value, a NaN, which no
/// computation on the drawn inputs produces.
bool leavesPoison(const Judged &judged, uint64_t seed) {
  std::vector<std::string> outputs;
  Explored explored = explore(*judged.compiled, optionsFor(judged, 0, seed), 1, outputs);
  if (!explored.status.isOk())
    return false;
  for (size_t at = 0; at < outputs.front().size(); at += sizeof(float))
    if (outputs.front().compare(at, sizeof(float), "\xff\xff\xff\xff") == 0)
      return true;
  return false;
}

struct Count {
  int programs = 0, shown = 0;
};

void judgeAgainstExecution(uint64_t seed, std::map<std::string, Count> &counts) {
  Judged judged = judge(seed);
  if (!judged.report)
    return;
  std::string context =
      "BRAID_CASE=" + std::to_string(seed) + "\n" + judged.text + str(*judged.report);
  if (judged.report->isSafe()) {
    uint32_t queues = judged.report->queues;
    Count &count = counts[queues == 1 ? "accepted" : "accepted with more than one queue"];
    ++count.programs;
    EXPECT_EQ(howItFails(judged, seed), "") << context;
    if (queues > 1 && !numberFrom("BRAID_FREE", 0)) {
      EXPECT_TRUE(deadlocks(judged, queues - 1, seed)) << context;
    }
    return;
  }
  if (numberFrom("BRAID_FREE", 0))
    return; // the sanitizer would report the undefined behavior of a racy program
  Count &count = counts["rejected: " + name(judged.report->violation->rule).str()];
  bool wasShown = isGuilty(judged, seed);
  ++count.programs;
  count.shown += wasShown;
  CheckRule rule = judged.report->violation->rule;
  if (rule == CheckRule::Transfers || rule == CheckRule::Deadlock) {
    EXPECT_TRUE(wasShown) << context;
  }
  if (judged.report->violation->summary == "the caller reads data that no command has written") {
    EXPECT_TRUE(leavesPoison(judged, seed)) << context;
    Count &unwritten = counts["an output is not written"];
    ++unwritten.programs;
    ++unwritten.shown;
  }
}

TEST(Handmade, NoAcceptedProgramFails) {
  std::map<std::string, Count> counts;
  if (uint64_t seed = numberFrom("BRAID_CASE", 0)) {
    judgeAgainstExecution(seed, counts);
    Judged judged = judge(seed);
    std::printf("%s%s", judged.text.c_str(), str(*judged.report).c_str());
    return;
  }
  uint64_t cases = numberFrom("BRAID_CASES", 5000);
  for (uint64_t seed = 1; seed <= cases && !HasFailure(); ++seed)
    judgeAgainstExecution(seed, counts);
  for (const auto &[what, count] : counts)
    std::printf("%5d %s (%d shown by execution)\n", count.programs, what.c_str(), count.shown);
  if (cases < 1000)
    return;
  int atLeast = static_cast<int>(cases / 4);
  EXPECT_GT(counts["accepted"].programs, atLeast);
  EXPECT_GT(counts["rejected: race"].programs + counts["rejected: result"].programs, atLeast / 2);
  EXPECT_GT(counts["rejected: race"].shown, atLeast / 4);
  for (const char *what : {"accepted with more than one queue", "rejected: deadlock",
                           "rejected: lifetime", "rejected: transfers", "an output is not written"})
    EXPECT_GT(counts[what].programs, static_cast<int>(cases / 1000)) << what;
}

TEST(Handmade, TheSameSeedDrawsTheSameProgram) {
  for (uint64_t seed = 1; seed < 50; ++seed)
    EXPECT_EQ(randomProgram(seed), randomProgram(seed));
  EXPECT_NE(randomProgram(1), randomProgram(2));
}

} // namespace
} // namespace braid::test
