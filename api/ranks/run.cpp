//===- api/ranks/run.cpp - runs a program and verifies its results ----------------------------===//

#include "api/ranks/run.h"

#include "api/ranks/arguments.h"
#include "api/ranks/rank_summary.h"
#include "api/ranks/run_memory.h"
#include "api/timing/seconds_since.h"
#include "ir/failure.h"
#include "runtime/execute/handshake.h"
#include "runtime/job/rank_group.h"
#include "runtime/reference/reference.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;

/// Returns the maximum number of runs in flight, whose tensors on all ranks must fit into 1 GiB.
/// Runs in flight overlap and use different addresses.
int64_t chooseRunsInFlight(const RunOptions &options, const Plan &plan) {
  if (options.isGraph()) // a graph contains fixed addresses
    return 1;
  constexpr int64_t kMaxRunsInFlight = 4, kBudget = int64_t(1) << 30;
  int64_t fitting = kBudget / std::max<int64_t>(argumentBytes(plan) * plan.ranks, 1);
  return std::clamp<int64_t>(fitting, 1, std::min(kMaxRunsInFlight, options.iterations));
}

/// Returns true if every rank has the whole tensor, which must then be bitwise equal on all ranks.
bool isWhole(const FusionTensor &tensor) { return !tensor.type.find(AxisKind::DIDx); }

/// Returns a digest of `words` and `bytes`.
uint64_t digestOf(std::vector<uint64_t> words, llvm::StringRef bytes = "") {
  words.push_back(llvm::xxHash64(bytes));
  return llvm::xxHash64(llvm::StringRef(reinterpret_cast<const char *>(words.data()),
                                        words.size() * sizeof(uint64_t)));
}

const ProgressFn kNobody;

/// The state of a call to run(), shared by all ranks in this process.
class Runner {
public:
  Runner(const Compiled &compiled, const RunOptions &options, Cluster &cluster,
         const SessionPlans &session)
      : compiled_(compiled), options_(options), cluster_(cluster), session_(session) {
    if (compiled.fusion)
      reference_ = std::make_unique<Reference>(*compiled.fusion, options.seed,
                                               compiled.source->diags.fileName());
    runsInFlight_ = chooseRunsInFlight(options, plan(0));
    report_.commandsPerRun = static_cast<int64_t>(plan(0).commands.size());
    report_.streams = static_cast<int64_t>(plan(0).streams.size()) - 1;
    for (int64_t rank = 0; options.verify && rank < cluster.ranks(); ++rank)
      report_.elementsCompared += reference_->elementsOf(rank) * options.iterations;
  }

  Status run() {
    if (options_.trace)
      for (int64_t i = 0; i < cluster_.hosted(); ++i)
        cluster_.device(cluster_.firstHosted() + i).tracer()->startTrace();
    return cluster_.onEveryRank([this](int64_t rank) { return runRank(rank); });
  }

  /// Adds the descriptions of rank 0's compute library and messages to the report.
  void describeDevice() {
    Device &device = cluster_.device(0);
    report_.choices = device.compute().choices();
    if (Messages *messages = device.messages(); messages && plan(0).hasMessages())
      report_.messages = messages->describe();
  }
  RunReport &report() { return report_; }

private:
  const Plan &plan(int64_t rank) const { return session_.plans[static_cast<size_t>(rank)]; }
  Prepared &prepared(int64_t rank) {
    return *session_.prepared[static_cast<size_t>(rank - cluster_.firstHosted())];
  }
  Status runRank(int64_t rank);
  Status runBatch(int64_t rank, std::vector<Arguments> &slots, int64_t first, RankSummary &work);
  void fill(int64_t rank, Arguments &slot, int64_t iteration) const;
  void fillInput(size_t input, int64_t rank, int64_t iteration, void *data) const;
  Status compare(int64_t rank, Arguments &slot, int64_t iteration) const;
  void digest(int64_t rank, Arguments &slot, std::vector<uint64_t> &digests) const;
  Status finishRank(int64_t rank, RankSummary mine);
  Status merge(const std::vector<std::string> &summaries);
  Status mergeDigests(llvm::ArrayRef<RankSummary> ranks);

  const Compiled &compiled_;
  const RunOptions &options_;
  Cluster &cluster_;
  const SessionPlans &session_;
  std::unique_ptr<Reference> reference_;
  int64_t runsInFlight_ = 1;
  RunReport report_;
};

Status Runner::runRank(int64_t rank) {
  std::vector<Arguments> slots;
  for (int64_t i = 0; i < runsInFlight_; ++i)
    slots.push_back(BRAID_TRY(Arguments::allocate(plan(rank), cluster_.device(rank))));
  if (options_.isGraph()) {
    RunArguments arguments = slots.front().addresses();
    BRAID_TRY(prepared(rank).capture(arguments.inputs, arguments.outputs));
  }
  RankSummary work;
  work.digests.assign(plan(rank).outputs.size(), 0);
  ProgressStep progress(rank == 0 ? options_.progress : kNobody, "running", "iterations",
                        static_cast<size_t>(options_.iterations));
  for (int64_t first = 0; first < options_.iterations; first += runsInFlight_) {
    if (Status status = runBatch(rank, slots, first, work); !status.isOk()) {
      if (cluster_.isStuck()) // a command that never ends may still use the slots
        (void)new std::vector<Arguments>(std::move(slots));
      return status;
    }
    for (int64_t i = 0; i < std::min(runsInFlight_, options_.iterations - first); ++i)
      progress.advance();
  }
  return finishRank(rank, std::move(work));
}

/// Issues a run for each slot, waits for all runs, and compares their outputs.
Status Runner::runBatch(int64_t rank, std::vector<Arguments> &slots, int64_t first,
                        RankSummary &work) {
  int64_t count = std::min<int64_t>(runsInFlight_, options_.iterations - first);
  for (int64_t i = 0; i < count; ++i) {
    fill(rank, slots[static_cast<size_t>(i)], first + i);
    slots[static_cast<size_t>(i)].upload();
    cluster_.control(rank).tick();
  }
  Clock::time_point start = Clock::now();
  for (int64_t i = 0; i < count; ++i) {
    RunArguments arguments = slots[static_cast<size_t>(i)].addresses();
    if (options_.isGraph())
      prepared(rank).replay();
    else
      prepared(rank).run(arguments.inputs, arguments.outputs);
  }
  BRAID_TRY(cluster_.device(rank).synchronize());
  work.runSeconds += secondsSince(start);
  if (!options_.verify && !compiled_.isReproducible)
    return Status::ok();
  for (int64_t i = 0; i < count; ++i)
    slots[static_cast<size_t>(i)].download();
  BRAID_TRY(cluster_.device(rank).synchronize());
  for (int64_t i = 0; i < count; ++i) {
    Arguments &slot = slots[static_cast<size_t>(i)];
    if (options_.verify)
      BRAID_TRY(compare(rank, slot, first + i));
    if (compiled_.isReproducible)
      digest(rank, slot, work.digests);
    cluster_.control(rank).tick();
  }
  return Status::ok();
}

void Runner::fill(int64_t rank, Arguments &slot, int64_t iteration) const {
  const Plan &plan = this->plan(rank);
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    fillInput(i, rank, iteration, slot.input(i));
  // A value whose bytes are all 0xff is a NaN in every floating-point type.
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    std::fill_n(static_cast<unsigned char *>(slot.output(i)), plan.buffers[plan.outputs[i]].bytes,
                static_cast<unsigned char>(0xff));
}

void Runner::fillInput(size_t input, int64_t rank, int64_t iteration, void *data) const {
  if (reference_ && (options_.verify || !compiled_.isReproducible))
    return reference_->fillInput(input, rank, static_cast<uint32_t>(iteration), data);
  const Plan &plan = this->plan(rank);
  const bool isSame = compiled_.fusion && isWhole(*compiled_.fusion->inputs()[input]);
  const uint64_t seed = options_.seed + static_cast<uint64_t>(isSame ? 0 : rank) * 1000003u +
                        static_cast<uint64_t>(iteration) * 7919u + input;
  const DType dtype = compiled_.program->params()[input]->type.dtype;
  drawNumbers(dtype, data, plan.buffers[plan.inputs[input]].bytes / sizeOf(dtype), seed);
}

void Runner::digest(int64_t rank, Arguments &slot, std::vector<uint64_t> &digests) const {
  const Plan &plan = this->plan(rank);
  for (size_t i = 0; i < digests.size(); ++i) {
    const auto bytes = static_cast<size_t>(plan.buffers[plan.outputs[i]].bytes);
    digests[i] = digestOf({digests[i]}, {static_cast<const char *>(slot.output(i)), bytes});
  }
}

Status Runner::compare(int64_t rank, Arguments &slot, int64_t iteration) const {
  for (size_t i = 0; i < plan(rank).outputs.size(); ++i)
    BRAID_TRY(reference_->compare(i, rank, static_cast<uint32_t>(iteration), slot.output(i)));
  return Status::ok();
}

/// Converts the spans to wall-clock time, the only clock that all hosts share.
static void moveToWallClock(std::vector<Span> &spans) {
  using namespace std::chrono;
  const int64_t shiftNs = duration_cast<nanoseconds>(system_clock::now().time_since_epoch() -
                                                     steady_clock::now().time_since_epoch())
                              .count();
  for (Span &span : spans) {
    span.beginNs += shiftNs;
    span.endNs += shiftNs;
  }
}

/// Exchanges the ranks' summaries, and commits the run.
Status Runner::finishRank(int64_t rank, RankSummary mine) {
  if (options_.trace)
    mine.spans = cluster_.device(rank).tracer()->takeTrace();
  // Spans without a Plan are copies of inputs to the device or of outputs to the host.
  llvm::erase_if(mine.spans, [](const Span &span) { return !span.tag.plan; });
  if (plan(rank).hosts() > 1)
    moveToWallClock(mine.spans);
  std::string summary = mine.encode();
  constexpr size_t kMostOfAllRanks = size_t(128) << 20;
  if (summary.size() > std::min(kMaxPart, kMostOfAllRanks / static_cast<size_t>(cluster_.ranks())))
    return unsupported(
        "the trace of rank {} has {} spans, too many to merge: use fewer iterations with --trace",
        rank, mine.spans.size());
  ControlPlane &control = cluster_.control(rank);
  std::vector<std::string> summaries = BRAID_TRY(control.allGather(std::move(summary)));
  if (rank == cluster_.firstHosted())
    BRAID_TRY(merge(summaries));
  return control.commit();
}

Status Runner::merge(const std::vector<std::string> &summaries) {
  std::vector<RankSummary> ranks;
  for (size_t rank = 0; rank < summaries.size(); ++rank) {
    ranks.push_back(
        BRAID_TRY(RankSummary::decode(summaries[rank], plan(static_cast<int64_t>(rank)))));
    report_.runSeconds = std::max(report_.runSeconds, ranks.back().runSeconds);
  }
  if (compiled_.isReproducible)
    BRAID_TRY(mergeDigests(ranks));
  if (!options_.trace || cluster_.firstHosted() != 0)
    return Status::ok();
  std::vector<RankTrace> traces;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    traces.push_back({&session_.plans[rank], std::move(ranks[rank].spans)});
  llvm::raw_string_ostream os(report_.trace);
  writeTrace(traces, os);
  os.flush();
  return Status::ok();
}

/// Adds digests to the report. Returns WrongResult if ranks differ in an output that isWhole().
Status Runner::mergeDigests(llvm::ArrayRef<RankSummary> ranks) {
  for (size_t i = 0; i < plan(0).outputs.size(); ++i) {
    const std::string &name = compiled_.program->results()[i]->name;
    const bool areEqual = compiled_.fusion && isWhole(*compiled_.fusion->outputs()[i]);
    std::vector<uint64_t> all;
    for (const RankSummary &rank : ranks) {
      all.push_back(rank.digests[i]);
      if (areEqual && all.back() != all.front())
        return Status(StatusCode::WrongResult,
                      fmt::format("%{}: expected the same bits on every rank, but rank {} (digest "
                                  "{:016x}) differs from rank 0 ({:016x})",
                                  name, all.size() - 1, all.back(), all.front()));
    }
    report_.digests.emplace_back(name, digestOf(all));
  }
  return Status::ok();
}

/// Returns all options that must be equal on all ranks, apart from the program.
std::vector<Choice> choicesOf(const Compiled &compiled, const RunOptions &options) {
  std::vector<Choice> choices = {{"--iterations", std::to_string(options.iterations)},
                                 {"--verify", options.verify ? "yes" : "no"},
                                 {"--seed", std::to_string(options.seed)},
                                 {"--queues", std::to_string(options.cluster.queues)},
                                 {"--timeout-ms", std::to_string(options.cluster.timeout.count())},
                                 {"--reproducible", compiled.isReproducible ? "yes" : "no"},
                                 {"--schedule auto", options.isAuto ? "yes" : "no"},
                                 {"--trace", options.trace ? "yes" : "no"},
                                 {"fusion", compiled.fusion ? str(*compiled.fusion) : "none"}};
  for (const KnobRow &row : allKnobs())
    if (row.isOfRun()) {
      const std::optional<int64_t> value = options.knobs.get(row.knob);
      choices.push_back({"--" + row.name, row.str(value ? value : row.fallback)});
    }
  return choices;
}

/// Returns BadInput if verification is requested but impossible.
Status checkVerify(const Compiled &compiled, const Backend &backend, const RunOptions &options) {
  if (!options.verify)
    return Status::ok();
  if (!compiled.fusion)
    return badInput("{}: cannot verify @{}, which implements no fusion that defines its result",
                    compiled.source->diags.place(compiled.program->location()),
                    compiled.program->name());
  if (!backend.computes)
    return badInput("backend '{}' computes no results to verify", backend.name);
  return Status::ok();
}

} // namespace

Status checkRun(const Compiled &compiled, const Backend &backend, const RunOptions &options,
                bool areThreads) {
  if (options.iterations < 1)
    return badInput("expected at least 1 iteration, got {}", options.iterations);
  BRAID_TRY(checkVerify(compiled, backend, options));
  const char *kind = areThreads ? "threads of a process" : "processes";
  return checkGroup(kind, compiled.program->ranks(), options.cluster.timeout);
}

Status expectRunMemory(llvm::ArrayRef<Plan> plans, const Backend &backend,
                       const RunOptions &options, bool areThreads) {
  const auto hosted = areThreads ? static_cast<int64_t>(plans.size()) : 1;
  const int64_t inFlight = chooseRunsInFlight(options, plans.front());
  return expectMemory(
      runMemory(plans, backend, inFlight, hosted),
      fmt::format("running {} rank{} takes", plans.size(), plans.size() == 1 ? "" : "s"),
      "run fewer ranks or smaller tensors");
}

Status compareOptions(JobState &job, const Compiled &compiled, const RunOptions &options) {
  const std::string mine = encodeChoices(choicesOf(compiled, options));
  const Status status = compareChoices(BRAID_TRY(job.gather([&](int64_t) { return mine; })));
  return status.isOk() ? status : job.cluster->fail(status);
}

Result<RunReport> run(JobState &job, const Compiled &compiled, std::vector<Plan> plans,
                      const RunOptions &options) {
  const Clock::time_point start = Clock::now();
  const auto session = job.prepare(std::move(plans), transferModeOf(options.knobs));
  if (!session)
    return job.cluster->fail(session.status());
  Runner runner(compiled, options, *job.cluster, (*session)->second);
  runner.report().prepareSeconds = secondsSince(start);
  if (job.isRank0Here())
    runner.describeDevice();
  const Status status = runner.run();
  job.end(*session);
  return status.isOk() ? Result<RunReport>(std::move(runner.report())) : job.cluster->fail(status);
}

} // namespace braid
