//===- tests/gpu/gpu_bits_test.cpp - bitwise equal results on GPUs in every mode --------------===//
//
//   gpu_bits_test [--ranks N] [--runs R]
//
// Starts a job of processes on 2, 3 and 4 ranks, or on N, with reproducible results, and executes
// at least R runs in total (default 1,000). Row i of a result must have the same bits for every M,
// schedule, number of chunks, protocol, transfer mode and launch mode, and on every rank.
//
//===----------------------------------------------------------------------------------------===//

#include "api/compile/plans.h"
#include "api/launch/job_rank.h"
#include "api/ranks/arguments.h"
#include "backends/cuda/cuda_backend.h"
#include "runtime/execute/executor.h"
#include "runtime/numeric.h"
#include "tests/gpu/gpu_job.h"

#include "llvm/Support/xxhash.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstring>

namespace braid::test {
namespace {

constexpr int64_t kRows[] = {4096, 256, 17, 1}; ///< values of M; the first covers all rows

Status wrong(std::string message) { return Status(StatusCode::WrongResult, std::move(message)); }

/// A GEMM. If N is small and K is large, GEMM libraries split K unless splitting is disabled.
struct Problem {
  const char *name;
  bool isGather; ///< if false, partial results are summed in f32
  int64_t n, k;
};
constexpr Problem kProblems[] = {
    {"gather", true, 256, 4096},
    {"all-reduce", false, 256, 4096},
    {"gather of odd rows", true, 65, 1027}, // unaligned
    {"gather, wide", true, 2048, 512},
};

std::string textOf(const Problem &problem, int64_t m, int64_t ranks) {
  if (problem.isGather)
    return fmt::format("fusion @f(D = {0}) {{\n  mesh [0 .. D)\n"
                       "  %A = input bf16[DIDx{{D}}, ceil({1}, D), {2}]\n"
                       "  %B = input bf16[{2}, {3}]\n"
                       "  %C = matmul %A, %B : bf16[Stream{{D}}, ceil({1}, D), {3}]\n"
                       "  output %C\n}}\n",
                       ranks, m, problem.k, problem.n);
  return fmt::format("fusion @f(D = {0}) {{\n  mesh [0 .. D)\n"
                     "  %A = input bf16[{1}, DIDx{{D}}, {2}]\n"
                     "  %B = input bf16[DIDx{{D}}, {2}, {3}]\n"
                     "  %C = matmul %A, %B partial f32 : bf16[{1}, {3}]\n"
                     "  output %C\n}}\n",
                     ranks, m, problem.k, problem.n);
}

struct Way {
  CompileOptions options;
  TransferMode transferMode;
  std::string str() const {
    return fmt::format("{}, copies {}, signals {}", options.schedule.str(),
                       name(transferMode.copies).str(), name(transferMode.signals).str());
  }
};

/// Returns every preset, transfer mode and number of chunks. Protocols alternate; `turn` selects
/// the first.
std::vector<Way> waysFor(size_t turn) {
  std::vector<Way> ways;
  for (const Preset &preset : presets())
    for (TransferMode transferMode : {TransferMode{}, TransferMode{CopyBy::Kernel, {}},
                                      TransferMode{CopyBy::Engine, SignalBy::Kernel},
                                      TransferMode{CopyBy::Engine, SignalBy::Memory}})
      for (int64_t chunks : {1, 3}) {
        Way way{{.reproducible = true}, transferMode};
        way.options.schedule.all = preset.fields;
        way.options.schedule.all.set(Knob::Chunks, chunks)
            .set(Knob::Protocol, ++turn % 2 ? Protocol::Get : Protocol::Put);
        ways.push_back(way);
      }
  return ways;
}

/// The rows of A and the matrix B that rank `owner` uses. In a gather, all ranks use the same
/// matrices.
class Operands {
public:
  Operands(const Problem &problem, int64_t owner)
      : problem_(problem), owner_(problem.isGather ? 0 : owner) {}

  /// Returns `rows` rows of the complete A, starting at row `first`.
  std::vector<BF16> a(int64_t first, int64_t rows) const {
    std::vector<BF16> numbers(static_cast<size_t>(rows * problem_.k));
    for (int64_t row = 0; row < rows; ++row)
      drawNumbers(DType::BF16, numbers.data() + row * problem_.k, problem_.k,
                  static_cast<uint64_t>((first + row) * 64 + owner_));
    return numbers;
  }
  std::vector<BF16> b() const {
    std::vector<BF16> numbers(static_cast<size_t>(problem_.k * problem_.n));
    drawNumbers(DType::BF16, numbers.data(), problem_.k * problem_.n,
                static_cast<uint64_t>(1000000000 + owner_));
    return numbers;
  }

private:
  const Problem &problem_;
  const int64_t owner_;
};

/// One problem on this rank.
class ProblemTest {
public:
  ProblemTest(Cluster &cluster, const Problem &problem)
      : cluster_(cluster), problem_(problem), rank_(cluster.firstHosted()) {}

  /// Runs every M in every way, `runsOfEach` times eagerly and `runsOfEach` times replayed.
  /// Collective.
  Status run(int runsOfEach);
  int64_t runs() const { return runs_; }
  int64_t programs() const { return programs_; }

private:
  struct Program {
    std::unique_ptr<Source> source;
    std::vector<Plan> plans;
  };
  Device &device() { return cluster_.device(rank_); }
  size_t rowBytes() const { return static_cast<size_t>(problem_.n) * sizeof(BF16); }
  std::optional<Program> lower(int64_t m, const Way &way) const;
  void fill(int64_t m, Arguments &arguments) const;
  Status runWay(int64_t m, const Way &way, Program &program, Arguments &arguments, int runs);
  Status runOnce(int64_t m, Prepared &prepared, Arguments &arguments, bool replays);
  Status compare(int64_t m, const char *result);
  Status takeAsExpected(const char *result);

  Cluster &cluster_;
  const Problem &problem_;
  const int64_t rank_;
  std::string expected_;     ///< the bits of all rows
  std::deque<Program> kept_; ///< kept because the device may still refer to their commands
  int64_t runs_ = 0, programs_ = 0;
};

/// Returns nullopt if lowering rejects this schedule for the problem.
std::optional<ProblemTest::Program> ProblemTest::lower(int64_t m, const Way &way) const {
  Program program{parseSource("bits.braid", textOf(problem_, m, cluster_.ranks())), {}};
  Result<Compiled> compiled = compile(*program.source, way.options);
  if (!compiled)
    return std::nullopt;
  Result<std::vector<Plan>> plans = makePlans(*compiled);
  if (!plans)
    return std::nullopt;
  program.plans = std::move(*plans);
  return program;
}

void ProblemTest::fill(int64_t m, Arguments &arguments) const {
  const int64_t ranks = cluster_.ranks(), block = (m + ranks - 1) / ranks;
  const Operands mine(problem_, rank_);
  const std::vector<BF16> a = problem_.isGather ? mine.a(rank_ * block, block) : mine.a(0, m);
  const std::vector<BF16> b = mine.b();
  std::memcpy(arguments.input(0), a.data(), a.size() * sizeof(BF16));
  std::memcpy(arguments.input(1), b.data(), b.size() * sizeof(BF16));
}

Status ProblemTest::run(int runsOfEach) {
  size_t turn = 0;
  for (int64_t m : kRows) {
    std::optional<Arguments> arguments; // shared by all ways
    for (const Way &way : waysFor(turn++)) {
      std::optional<Program> program = lower(m, way);
      if (!program)
        continue;
      kept_.push_back(std::move(*program));
      if (!arguments) {
        Arguments made = BRAID_TRY(
            Arguments::allocate(kept_.back().plans[static_cast<size_t>(rank_)], device()));
        arguments = std::move(made);
        fill(m, *arguments);
      }
      BRAID_TRY(runWay(m, way, kept_.back(), *arguments, runsOfEach)
                    .annotated(fmt::format("{}, M = {}, {}", problem_.name, m, way.str())));
      ++programs_;
    }
    if (!arguments)
      return wrong(fmt::format("{}, M = {}: nothing could be lowered", problem_.name, m));
  }
  return Status::ok();
}

Status ProblemTest::runWay(int64_t m, const Way &way, Program &program, Arguments &arguments,
                           int runs) {
  cluster_.setPlans(program.plans);
  auto prepared = BRAID_TRY(prepare(program.plans[static_cast<size_t>(rank_)], device(),
                                    cluster_.control(rank_), way.transferMode));
  RunArguments addresses = arguments.addresses();
  BRAID_TRY(prepared->capture(addresses.inputs, addresses.outputs));
  for (int run = 0; run < 2 * runs; ++run)
    BRAID_TRY(runOnce(m, *prepared, arguments, run >= runs)
                  .annotated(run >= runs ? "replayed" : "eager"));
  return Status::ok();
}

Status ProblemTest::runOnce(int64_t m, Prepared &prepared, Arguments &arguments, bool replays) {
  std::memset(arguments.output(0), 0xff, static_cast<size_t>(m) * rowBytes()); // fills with NaNs
  arguments.upload();
  RunArguments addresses = arguments.addresses();
  if (replays)
    prepared.replay();
  else
    prepared.run(addresses.inputs, addresses.outputs);
  arguments.download();
  BRAID_TRY(device().synchronize());
  ++runs_;
  const char *result = static_cast<const char *>(arguments.output(0));
  return expected_.empty() ? takeAsExpected(result) : compare(m, result);
}

Status ProblemTest::compare(int64_t m, const char *result) {
  for (int64_t row = 0; row < m; ++row) {
    const size_t at = static_cast<size_t>(row) * rowBytes();
    if (std::memcmp(result + at, expected_.data() + at, rowBytes()) != 0)
      return wrong(fmt::format("row {} has other bits than that of the first run of {} rows", row,
                               kRows[0]));
  }
  return Status::ok();
}

/// Keeps the first result for comparison. It must be equal on all ranks and approximately correct.
Status ProblemTest::takeAsExpected(const char *result) {
  expected_.assign(result, static_cast<size_t>(kRows[0]) * rowBytes());
  std::vector<std::string> digests =
      BRAID_TRY(cluster_.control(rank_).allGather(std::to_string(llvm::xxHash64(expected_))));
  for (const std::string &digest : digests)
    if (digest != digests.front())
      return wrong(
          fmt::format("ranks have {} and {} for the first result", digests.front(), digest));
  for (int64_t row : {int64_t(0), kRows[0] / 2 + 1, kRows[0] - 1})
    for (int64_t column : {int64_t(0), problem_.n - 1}) {
      double sum = 0, scale = 0;
      for (int64_t owner = 0; owner < (problem_.isGather ? 1 : cluster_.ranks()); ++owner) {
        const Operands theirs(problem_, owner);
        const std::vector<BF16> a = theirs.a(row, 1), b = theirs.b();
        for (int64_t i = 0; i < problem_.k; ++i) {
          const double product = double(widen(a[static_cast<size_t>(i)])) *
                                 double(widen(b[static_cast<size_t>(i * problem_.n + column)]));
          sum += product;
          scale += product * product;
        }
      }
      BF16 got;
      std::memcpy(&got,
                  expected_.data() + static_cast<size_t>(row) * rowBytes() +
                      static_cast<size_t>(column) * sizeof got,
                  sizeof got);
      if (!(std::abs(double(widen(got)) - sum) <= 0.02 * std::sqrt(scale)))
        return wrong(
            fmt::format("C[{}, {}] is {}, expected about {}", row, column, widen(got), sum));
    }
  return Status::ok();
}

Status runProblems(Cluster &cluster, int runs) {
  // A problem has a few hundred programs. Each program runs this many times eagerly and is replayed
  // as often.
  const int runsOfEach = std::max(1, runs / 400);
  std::deque<ProblemTest> tests; // keeps their Plans alive
  for (const Problem &problem : kProblems) {
    tests.emplace_back(cluster, problem);
    BRAID_TRY(tests.back().run(runsOfEach));
    if (cluster.firstHosted() == 0) {
      std::printf("  %s: %d runs of %d programs, all with the same bits\n", problem.name,
                  static_cast<int>(tests.back().runs()), static_cast<int>(tests.back().programs()));
      std::fflush(stdout);
    }
  }
  if (cluster.firstHosted() == 0)
    std::printf("  %s\n", cluster.device(0).compute().choices().c_str());
  return cluster.control(cluster.firstHosted()).commit();
}

int rankMain(const Place &place, int runs) {
  Result<std::unique_ptr<JobRank>> job = JobRank::join(place);
  if (!job)
    return static_cast<int>(job.status().code());
  Result<std::unique_ptr<Cluster>> cluster =
      joinCuda({.ranks = place.ranks, .reproducible = true}, (*job)->takeClient());
  if (!cluster)
    return static_cast<int>((*job)->fail(cluster.status()).code());
  const Status status = runProblems(**cluster, runs);
  if (!status.isOk())
    (*cluster)->control(place.rank).abort(status);
  return endOfRank(**job, status);
}

} // namespace
} // namespace braid::test

int main(int argc, char **argv) {
  return braid::test::gpuJobMain(argc, argv, {{"the same bits", braid::test::rankMain}});
}
