//===- api/ranks/run.cpp - runs a program and verifies its results ----------------------------===//

#include "api/ranks/run.h"

#include "api/ranks/arguments.h"
#include "api/ranks/run_memory.h"
#include "api/timing/seconds_since.h"
#include "ir/failure.h"
#include "runtime/execute/handshake.h"
#include "runtime/execute/trace.h"
#include "runtime/job/rank_group.h"
#include "runtime/reference/reference.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;

/// Returns true if every rank has the whole tensor, which must then be bitwise equal on all ranks.
bool isWhole(const FusionTensor &tensor) { return !tensor.type.find(AxisKind::DIDx); }

/// Returns a digest of `words` and `bytes`.
uint64_t digestOf(std::vector<uint64_t> words, llvm::StringRef bytes = "") {
  words.push_back(llvm::xxHash64(bytes));
  return llvm::xxHash64(llvm::StringRef(reinterpret_cast<const char *>(words.data()),
                                        words.size() * sizeof(uint64_t)));
}

/// One rank's contribution to a RunReport.
struct RankSummary {
  double runSeconds = 0;
  std::vector<uint64_t> digests; ///< one per output, over all runs
  std::vector<Span> spans;       ///< all from one Plan; encode() omits their tags' `plan`

  /// Encodes the summary for ranks in other processes, on machines of the same architecture.
  std::string encode() const;
  /// Decodes the result of encode() for runs of `plan`.
  static RankSummary decode(llvm::StringRef bytes, const Plan &plan);
};

/// The encoding consists of 64-bit words: the run time, the digests, and four words per span.
std::string RankSummary::encode() const {
  std::vector<uint64_t> words = {std::bit_cast<uint64_t>(runSeconds)};
  words.insert(words.end(), digests.begin(), digests.end());
  for (const Span &span : spans)
    words.insert(words.end(), {uint64_t(span.tag.command) << 32 | span.tag.run, span.stream,
                               uint64_t(span.beginNs), uint64_t(span.endNs)});
  return {reinterpret_cast<const char *>(words.data()), words.size() * sizeof(uint64_t)};
}

RankSummary RankSummary::decode(llvm::StringRef bytes, const Plan &plan) {
  std::vector<uint64_t> words(bytes.size() / sizeof(uint64_t));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  const auto firstSpan = words.begin() + 1 + static_cast<ptrdiff_t>(plan.outputs.size());
  RankSummary summary{std::bit_cast<double>(words[0]), {words.begin() + 1, firstSpan}, {}};
  for (auto word = firstSpan; word != words.end(); word += 4)
    summary.spans.push_back(
        {{&plan, static_cast<uint32_t>(word[0] >> 32), static_cast<uint32_t>(word[0])},
         static_cast<uint32_t>(word[1]),
         static_cast<int64_t>(word[2]),
         static_cast<int64_t>(word[3])});
  return summary;
}

const ProgressFn kNobody;

/// The state of a call to run(), shared by all ranks in this process.
class Runner {
public:
  Runner(const Compiled &compiled, const RunOptions &options, Cluster &cluster,
         const SessionPlans &session, double prepareSeconds)
      : compiled_(compiled), options_(options), cluster_(cluster), session_(session) {
    if (compiled.fusion)
      reference_ = std::make_unique<Reference>(*compiled.fusion, options.seed,
                                               compiled.source->diags.fileName());
    runsInFlight_ = runsInFlight(options, plan(0));
    report_.prepareSeconds = prepareSeconds;
    report_.commandsPerRun = static_cast<int64_t>(plan(0).commands.size());
    report_.streams = static_cast<int64_t>(plan(0).streams.size()) - 1;
    for (int64_t rank = 0; options.verify && rank < cluster.ranks(); ++rank)
      report_.elementsCompared += reference_->elementsOf(rank) * options.iterations;
    if (cluster.firstHosted() != 0)
      return;
    Device &device = cluster.device(0);
    report_.choices = device.compute().choices();
    if (Messages *messages = device.messages(); messages && plan(0).hasMessages())
      report_.messages = messages->describe();
  }

  Result<RunReport> run() {
    BRAID_TRY(cluster_.onEveryRank([this](int64_t rank) { return runRank(rank); }));
    return std::move(report_);
  }

private:
  const Plan &plan(int64_t rank) const { return session_.plans[static_cast<size_t>(rank)]; }
  Prepared &prepared(int64_t rank) {
    return *session_.prepared[static_cast<size_t>(rank - cluster_.firstHosted())];
  }
  Status runRank(int64_t rank);
  Status runBatch(int64_t rank, llvm::MutableArrayRef<Arguments> slots, int64_t first,
                  RankSummary &work);
  void fill(int64_t rank, Arguments &slot, int64_t iteration) const;
  void fillInput(size_t input, int64_t rank, int64_t iteration, void *data) const;
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
  if (options_.trace)
    cluster_.device(rank).tracer()->startTrace();
  std::vector<Arguments> slots;
  for (int64_t i = 0; i < runsInFlight_; ++i)
    slots.push_back(BRAID_TRY(Arguments::allocate(plan(rank), cluster_.device(rank))));
  if (const RunArguments &arguments = slots.front().addresses(); options_.isGraph())
    BRAID_TRY(prepared(rank).capture(arguments.inputs, arguments.outputs));
  RankSummary work;
  work.digests.assign(plan(rank).outputs.size(), 0);
  ProgressStep progress(rank == 0 ? options_.progress : kNobody, "running", "iterations",
                        static_cast<size_t>(options_.iterations));
  for (int64_t first = 0; first < options_.iterations; first += runsInFlight_) {
    const auto count = static_cast<size_t>(std::min(runsInFlight_, options_.iterations - first));
    const auto batch = llvm::MutableArrayRef(slots).take_front(count);
    if (Status status = runBatch(rank, batch, first, work); !status.isOk()) {
      if (cluster_.isStuck()) // a command that never ends may still use the slots
        (void)new std::vector<Arguments>(std::move(slots));
      return status;
    }
    for (size_t i = 0; i < count; ++i)
      progress.advance();
  }
  return finishRank(rank, std::move(work));
}

/// Issues a run for each slot, waits for all runs, and verifies or hashes their outputs.
Status Runner::runBatch(int64_t rank, llvm::MutableArrayRef<Arguments> slots, int64_t first,
                        RankSummary &work) {
  int64_t iteration = first;
  for (Arguments &slot : slots) {
    fill(rank, slot, iteration++);
    slot.upload();
    cluster_.control(rank).tick();
  }
  Clock::time_point start = Clock::now();
  for (Arguments &slot : slots) {
    const RunArguments &arguments = slot.addresses();
    if (options_.isGraph())
      prepared(rank).replay();
    else
      prepared(rank).run(arguments.inputs, arguments.outputs);
  }
  BRAID_TRY(cluster_.device(rank).synchronize());
  work.runSeconds += secondsSince(start);
  if (!options_.verify && !compiled_.isReproducible)
    return Status::ok();
  for (Arguments &slot : slots)
    slot.download();
  BRAID_TRY(cluster_.device(rank).synchronize());
  iteration = first;
  for (Arguments &slot : slots) {
    for (size_t i = 0; options_.verify && i < plan(rank).outputs.size(); ++i)
      BRAID_TRY(reference_->compare(i, rank, static_cast<uint32_t>(iteration), slot.output(i)));
    ++iteration;
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
    return unsupported("the trace of rank {} has {} spans, which is too many to merge; use fewer "
                       "iterations with --trace",
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
    ranks.push_back(RankSummary::decode(summaries[rank], plan(static_cast<int64_t>(rank))));
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

/// Adds digests to the report. Returns WrongResult if an output for which isWhole() is true differs
/// between ranks.
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

} // namespace

Status checkRun(const Compiled &compiled, const Backend &backend, const RunOptions &options,
                bool areThreads) {
  if (options.iterations < 1)
    return badInput("expected at least 1 iteration, got {}", options.iterations);
  if (options.verify && !compiled.fusion)
    return badInput("{}: cannot verify @{}, because no fusion defines its result",
                    compiled.source->diags.place(compiled.program->location()),
                    compiled.program->name());
  if (options.verify && !backend.computes)
    return badInput("backend '{}' computes no results to verify", backend.name);
  const char *kind = areThreads ? "threads of a process" : "processes";
  return checkGroup(kind, compiled.program->ranks(), options.cluster.timeout);
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
  Runner runner(compiled, options, *job.cluster, (*session)->second, secondsSince(start));
  Result<RunReport> report = runner.run();
  job.end(*session);
  return report ? std::move(report) : job.cluster->fail(report.status());
}

} // namespace braid
