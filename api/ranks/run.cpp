//===- api/ranks/run.cpp - runs a program and judges its results ------------------------------===//

#include "api/ranks/run.h"

#include "api/compile/plans.h"
#include "api/launch/output_digests.h"
#include "api/launch/rank_summary.h"
#include "api/launch/run_memory.h"
#include "api/ranks/arguments.h"
#include "api/timing/seconds_since.h"
#include "ir/failure.h"
#include "runtime/execute/handshake.h"
#include "runtime/job/bootstrap/client.h"
#include "runtime/job/bootstrap/start_thread.h"
#include "runtime/reference/reference.h"
#include "runtime/simulate/simulator.h"

#include "backends/cpu/cpu_backend.h"
#include "backends/null/null_backend.h"
#ifdef BRAID_HAS_CUDA
#include "backends/nccl/nccl_backend.h"
#endif

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;

/// While it lives, this rank is not taken for stuck: what it does may take longer than the time
/// limit, such as to write to a pipe whose reader is slow.
class Ticking {
public:
  explicit Ticking(ControlPlane &control) {
    // Without the thread it is as if there were none of this.
    (void)startThread(thread_, "saying that a rank goes on", [this, &control] {
      std::unique_lock lock(mutex_);
      do
        control.tick();
      while (!over_.wait_for(lock, std::chrono::milliseconds(20), [this] { return isOver_; }));
    });
  }
  ~Ticking() {
    {
      std::lock_guard lock(mutex_);
      isOver_ = true;
    }
    over_.notify_one();
    if (thread_.joinable())
      thread_.join();
  }
  Ticking(const Ticking &) = delete;

private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool isOver_ = false;
  std::thread thread_;
};

/// As many as asked for, or as fit a gigabyte over all ranks.
int64_t chooseRunsInFlight(const RunOptions &options, const Plan &plan) {
  if (options.graph) // recorded with the addresses of one run
    return 1;
  if (options.runsInFlight > 0)
    return std::min(options.runsInFlight, options.iterations);
  constexpr int64_t kBudget = int64_t(1) << 30;
  int64_t fitting = kBudget / std::max<int64_t>(argumentBytes(plan) * plan.ranks, 1);
  return std::clamp<int64_t>(fitting, 1, std::min(kMaxRunsInFlight, options.iterations));
}

/// Inputs where no fusion says what they mean: words of a counter hashed with the seed, with the
/// top bits cleared, so that they are finite and small in every element type.
void fillWithoutMeaning(void *data, int64_t bytes, uint64_t seed) {
  auto *words = static_cast<uint16_t *>(data);
  uint64_t state = seed;
  for (int64_t i = 0; i < bytes / 2; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    words[i] = static_cast<uint16_t>((state >> 48) & 0x1fff);
  }
}

/// Every rank has it whole, so that all have to have the same; unknown where no fusion says it.
bool isWhole(const FusionTensor &tensor) { return !tensor.type.find(AxisKind::DIDx); }

std::vector<OutputOfRanks> outputsOf(const Compiled &compiled) {
  std::vector<OutputOfRanks> outputs;
  for (const auto &result : compiled.program->results())
    outputs.push_back({result->name});
  for (size_t i = 0; compiled.fusion && i < outputs.size(); ++i)
    outputs[i].isWhole = isWhole(*compiled.fusion->outputs()[i]);
  return outputs;
}

/// The results of one rank.
struct RankWork {
  double seconds = 0; ///< issuing and waiting
  std::vector<uint64_t> digests = {};
};

/// One call of run(): what all ranks of this process share.
class Runner {
public:
  Runner(const Compiled &compiled, const RunOptions &options, LocalMesh &mesh)
      : compiled_(compiled), options_(options), mesh_(mesh) {
    if (compiled.fusion)
      reference_ = std::make_unique<Reference>(*compiled.fusion, options.seed,
                                               compiled.source->diags.fileName());
    report_.ranks = mesh.ranks();
    report_.iterations = options.iterations;
    report_.runsInFlight = chooseRunsInFlight(options, mesh.plan(0));
    report_.commandsPerRun = static_cast<int64_t>(mesh.plan(0).commands.size());
    report_.streams = static_cast<int64_t>(mesh.plan(0).streams.size()) - 1;
    report_.hosts = mesh.plan(0).hosts();
  }

  Status run() {
    if (options_.trace)
      for (int64_t i = 0; i < mesh_.hosted(); ++i)
        mesh_.device(mesh_.firstHosted() + i).tracer()->startTrace();
    return mesh_.onEveryRank([this](int64_t rank) { return runRank(rank); });
  }

  RunReport &report() { return report_; }

private:
  Status runRank(int64_t rank);
  Status runBatch(int64_t rank, std::vector<Arguments> &slots, int64_t first, RankWork &work);
  Status download(int64_t rank, std::vector<Arguments> &slots, int64_t count);
  void fill(int64_t rank, Arguments &slot, int64_t iteration) const;
  void fillInput(size_t input, int64_t rank, int64_t iteration, void *data) const;
  Status compare(int64_t rank, Arguments &slot, int64_t iteration) const;
  void digest(int64_t rank, Arguments &slot, std::vector<uint64_t> &digests) const;
  Status finishRank(int64_t rank, const RankWork &work);
  Status conclude(int64_t rank, const std::vector<std::string> &summaries);
  Status merge(const std::vector<std::string> &summaries);

  const Compiled &compiled_;
  const RunOptions &options_;
  LocalMesh &mesh_;
  std::unique_ptr<Reference> reference_;
  RunReport report_;
};

Status Runner::runRank(int64_t rank) {
  std::vector<Arguments> slots;
  for (int64_t i = 0; i < report_.runsInFlight; ++i)
    slots.push_back(BRAID_TRY(Arguments::allocate(mesh_.plan(rank), mesh_.device(rank))));
  if (options_.graph) {
    RunArguments arguments = slots.front().addresses();
    BRAID_TRY(mesh_.prepared(rank).capture(arguments.inputs, arguments.outputs));
  }
  RankWork work;
  if (compiled_.isReproducible)
    work.digests.assign(mesh_.plan(rank).outputs.size(), 0);
  for (int64_t first = 0; first < options_.iterations; first += report_.runsInFlight) {
    if (Status status = runBatch(rank, slots, first, work); !status.isOk()) {
      if (mesh_.isStuck()) // a command that does not end may still use them
        (void)new std::vector<Arguments>(std::move(slots));
      return status;
    }
    if (rank == 0 && options_.progress)
      options_.progress(std::min(first + report_.runsInFlight, options_.iterations));
  }
  return finishRank(rank, work);
}

/// Issues as many runs as there are slots, waits for all, and compares them.
Status Runner::runBatch(int64_t rank, std::vector<Arguments> &slots, int64_t first,
                        RankWork &work) {
  int64_t count = std::min<int64_t>(report_.runsInFlight, options_.iterations - first);
  for (int64_t i = 0; i < count; ++i) {
    fill(rank, slots[static_cast<size_t>(i)], first + i);
    slots[static_cast<size_t>(i)].upload();
    mesh_.control(rank).tick();
  }
  Clock::time_point start = Clock::now();
  for (int64_t i = 0; i < count; ++i) {
    RunArguments arguments = slots[static_cast<size_t>(i)].addresses();
    if (options_.graph)
      mesh_.prepared(rank).replay();
    else
      mesh_.prepared(rank).run(arguments.inputs, arguments.outputs);
  }
  BRAID_TRY(mesh_.device(rank).synchronize());
  work.seconds += secondsSince(start);
  BRAID_TRY(download(rank, slots, count));

  for (int64_t i = 0; i < count; ++i) {
    Arguments &slot = slots[static_cast<size_t>(i)];
    if (options_.verify)
      BRAID_TRY(compare(rank, slot, first + i));
    if (compiled_.isReproducible)
      digest(rank, slot, work.digests);
    mesh_.control(rank).tick();
  }
  return Status::ok();
}

Status Runner::download(int64_t rank, std::vector<Arguments> &slots, int64_t count) {
  const bool isRead = options_.verify || compiled_.isReproducible;
  if (!isRead || mesh_.device(rank).sharesHostMemory())
    return Status::ok();
  for (int64_t i = 0; i < count; ++i)
    slots[static_cast<size_t>(i)].download();
  return mesh_.device(rank).synchronize();
}

void Runner::fill(int64_t rank, Arguments &slot, int64_t iteration) const {
  const Plan &plan = mesh_.plan(rank);
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    fillInput(i, rank, iteration, slot.input(i));
  // 0xff in every byte is a NaN in every element type.
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    std::fill_n(static_cast<unsigned char *>(slot.output(i)), plan.buffers[plan.outputs[i]].bytes,
                static_cast<unsigned char>(0xff));
}

void Runner::fillInput(size_t input, int64_t rank, int64_t iteration, void *data) const {
  const Plan &plan = mesh_.plan(rank);
  const int64_t bytes = plan.buffers[plan.inputs[input]].bytes;
  const bool isDrawn = compiled_.isReproducible && !options_.verify;
  const bool isSame = compiled_.fusion && isWhole(*compiled_.fusion->inputs()[input]);
  const uint64_t seed = options_.seed +
                        static_cast<uint64_t>(isDrawn && isSame ? 0 : rank) * 1000003u +
                        static_cast<uint64_t>(iteration) * 7919u + input;
  const DType dtype = compiled_.program->params()[input]->type.dtype;
  if (isDrawn)
    drawNumbers(dtype, data, bytes / sizeOf(dtype), seed);
  else if (reference_)
    reference_->fillInput(input, rank, static_cast<uint32_t>(iteration), data);
  else
    fillWithoutMeaning(data, bytes, seed);
}

void Runner::digest(int64_t rank, Arguments &slot, std::vector<uint64_t> &digests) const {
  const Plan &plan = mesh_.plan(rank);
  for (size_t i = 0; i < digests.size(); ++i) {
    const auto bytes = static_cast<size_t>(plan.buffers[plan.outputs[i]].bytes);
    digests[i] =
        digestOf(digests[i], llvm::StringRef(static_cast<const char *>(slot.output(i)), bytes));
  }
}

Status Runner::compare(int64_t rank, Arguments &slot, int64_t iteration) const {
  for (size_t i = 0; i < reference_->outputCount(); ++i)
    BRAID_TRY(reference_->compare(i, rank, static_cast<uint32_t>(iteration), slot.output(i)));
  return Status::ok();
}

/// Says what this rank has done, hears it of all, and makes it count.
Status Runner::finishRank(int64_t rank, const RankWork &work) {
  RankSummary mine{.runSeconds = work.seconds, .digests = work.digests};
  if (options_.verify)
    mine.elementsCompared = reference_->elementsPerRank() * options_.iterations;
  if (options_.trace)
    mine.spans = mesh_.device(rank).tracer()->takeTrace();
  // Copies of inputs to the device, and of outputs back, belong to no program.
  llvm::erase_if(mine.spans, [](const Span &span) { return !span.tag.plan; });
  const CommonClock clock = mesh_.control(rank).commonClock();
  mine.clockErrorNs = clock.errorNs;
  for (Span &span : mine.spans) {
    span.beginNs += clock.offsetNs;
    span.endNs += clock.offsetNs;
  }
  std::string summary = mine.encode();
  constexpr size_t kMostOfAllRanks = size_t(128) << 20;
  if (summary.size() > std::min(kMaxPart, kMostOfAllRanks / static_cast<size_t>(mesh_.ranks())))
    return unsupported("the trace of rank {} has {} spans, too many to be merged: expected fewer "
                       "iterations with --trace",
                       rank, mine.spans.size());
  ControlPlane &control = mesh_.control(rank);
  std::vector<std::string> summaries = BRAID_TRY(control.allGather(std::move(summary)));
  BRAID_TRY(conclude(rank, summaries));
  return control.commit();
}

Status Runner::conclude(int64_t rank, const std::vector<std::string> &summaries) {
  if (rank != mesh_.firstHosted())
    return Status::ok();
  const Ticking ticking(mesh_.control(rank));
  BRAID_TRY(merge(summaries));
  return rank == 0 && options_.beforeCommit ? options_.beforeCommit(report_) : Status::ok();
}

Status Runner::merge(const std::vector<std::string> &summaries) {
  std::vector<RankTrace> traces;
  std::vector<std::vector<uint64_t>> digests;
  for (size_t rank = 0; rank < summaries.size(); ++rank) {
    const Plan &plan = mesh_.plan(static_cast<int64_t>(rank));
    RankSummary summary = BRAID_TRY(RankSummary::decode(summaries[rank], plan));
    report_.runSeconds = std::max(report_.runSeconds, summary.runSeconds);
    report_.elementsCompared += summary.elementsCompared;
    report_.clockErrorNs = std::max(report_.clockErrorNs, summary.clockErrorNs);
    traces.push_back({&plan, std::move(summary.spans)});
    digests.push_back(std::move(summary.digests));
  }
  if (compiled_.isReproducible) {
    const std::vector<OutputOfRanks> outputs = outputsOf(compiled_);
    const std::vector<uint64_t> merged = BRAID_TRY(mergeDigests(outputs, digests));
    for (size_t i = 0; i < outputs.size(); ++i)
      report_.digests.emplace_back(outputs[i].name, merged[i]);
  }
  if (!options_.trace || mesh_.firstHosted() != 0)
    return Status::ok();
  llvm::raw_string_ostream os(report_.trace);
  writeTrace(traces, os, report_.clockErrorNs);
  os.flush();
  return Status::ok();
}

/// Everything that the ranks have to have in common besides the program.
std::vector<Choice> choicesOf(const Compiled &compiled, const RunOptions &options) {
  return {{"--iterations", std::to_string(options.iterations)},
          {"--verify", options.verify ? "yes" : "no"},
          {"--seed", std::to_string(options.seed)},
          {"--queues", std::to_string(options.queues)},
          {"--timeout-ms", std::to_string(options.timeout.count())},
          {"--reproducible", compiled.isReproducible ? "yes" : "no"},
          {"--graph", options.graph ? "yes" : "no"},
          {"--copies", name(options.transferMode.copies).str()},
          {"--signals", name(options.transferMode.signals).str()},
          {"--memory", name(options.transferMode.memory).str()},
          {"--ctas", std::to_string(options.transferMode.ctas.count)},
          {"--cta-policy", name(options.transferMode.ctas.policy).str()},
          {"--schedule auto", options.isAuto ? "yes" : "no"},
          {"--trace", options.trace ? "yes" : "no"},
          {"runs in flight", std::to_string(options.runsInFlight)},
          {"fusion", compiled.fusion ? str(*compiled.fusion) : "none"}};
}

/// Waits until all ranks have come, and sees that they want the same.
Status compareOptions(const Compiled &compiled, const RunOptions &options, LocalMesh &mesh) {
  return mesh.onEveryRank([&](int64_t rank) {
    Result<std::vector<std::string>> choices =
        mesh.control(rank).allGather(encodeChoices(choicesOf(compiled, options)));
    return choices ? compareChoices(*choices) : choices.status();
  });
}

Status runOn(LocalMesh &mesh, const Compiled &compiled, llvm::ArrayRef<Plan> plans,
             const RunOptions &options, RunReport &report) {
  const Clock::time_point start = Clock::now();
  BRAID_TRY(mesh.prepare(plans, options.transferMode));
  Runner runner(compiled, options, mesh);
  runner.report().prepareSeconds = secondsSince(start);
  if (mesh.firstHosted() == 0) {
    runner.report().choices = mesh.device(0).compute().choices();
    Messages *messages = mesh.device(0).messages();
    if (messages && plans.front().hasMessages())
      runner.report().messages = messages->describe(options.transferMode);
    if (plans.front().hosts() > 1)
      for (int64_t bytes : bytesSentByHosts(plans))
        runner.report().networkBytes += bytes;
  }
  BRAID_TRY(runner.run());
  report = std::move(runner.report());
  return Status::ok();
}

/// That the results can be verified, if they are to be.
Status checkVerify(const Compiled &compiled, const Backend &backend, const RunOptions &options) {
  if (!options.verify)
    return Status::ok();
  if (!compiled.fusion)
    return badInput("{}: @{} implements no fusion, so nothing says what its result should be: it "
                    "can be run, but not verified",
                    compiled.source->diags.place(compiled.program->location()),
                    compiled.program->name());
  if (!backend.computes)
    return badInput("backend '{}' computes nothing that could be verified", backend.name);
  return Status::ok();
}

} // namespace

Status checkRun(const Compiled &compiled, const Backend &backend, const RunOptions &options,
                bool areThreads) {
  if (options.iterations < 1)
    return badInput("expected at least 1 iteration, got {}", options.iterations);
  BRAID_TRY(checkVerify(compiled, backend, options));
  const char *kind = areThreads ? "threads of a process" : "processes";
  return checkGroup(kind, compiled.program->ranks(), options.timeout);
}

bool choosesByItself(const Backend &backend) {
  return !backend.isOnHost && backend.transport == Transport::PeerMemory;
}

Status checkModes(const Configuration &config, const Backend &backend) {
  auto has = [&](Knob knob) {
    if (knob == Knob::DataPlane)
      return transportOf(config, backend.transport) == backend.transport || backend.messages;
    return knob == Knob::Launch ? backend.hasGraphs : backend.hasGraphs && !backend.isOnHost;
  };
  for (const KnobRow &row : allKnobs())
    if (row.isOfRun() &&
        config.get(row.knob).value_or(row.fallback.value_or(-1)) != row.fallback.value_or(-1) &&
        !has(row.knob))
      return unsupported("--{} {}: needs the cuda {}backend, got {}", row.name,
                         row.str(config.get(row.knob)),
                         row.knob == Knob::DataPlane ? "or the cpu " : "", backend.name);
  return Status::ok();
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

Result<MetRanks> meet(const Compiled &compiled, const Backend &backend, const RunOptions &options,
                      std::unique_ptr<Client> client) {
  const bool areThreads = client == nullptr;
  ClusterOptions cluster{.ranks = compiled.program->ranks(),
                         .timeout = options.timeout,
                         .scheduleSeed = options.scheduleSeed,
                         .queues = options.queues,
                         .reproducible = compiled.isReproducible};
  MetRanks ranks;
  ranks.mesh = BRAID_TRY(client ? LocalMesh::join(backend, cluster, std::move(client))
                                : LocalMesh::create(backend, cluster));
  if (areThreads)
    return ranks;
  const Clock::time_point start = Clock::now();
  if (Status status = compareOptions(compiled, options, *ranks.mesh); !status.isOk())
    return ranks.mesh->fail(status);
  ranks.seconds = secondsSince(start);
  return ranks;
}

Result<RunReport> run(const MetRanks &ranks, const Compiled &compiled, llvm::ArrayRef<Plan> plans,
                      const RunOptions &options) {
  RunReport report;
  if (Status status = runOn(*ranks.mesh, compiled, plans, options, report); !status.isOk())
    return ranks.mesh->fail(status);
  report.meetSeconds = ranks.seconds;
  return report;
}

Result<RunReport> run(const Compiled &compiled, llvm::ArrayRef<Plan> plans, const Backend &backend,
                      const RunOptions &options, std::unique_ptr<Client> client) {
  const bool areThreads = client == nullptr;
  BRAID_TRY(checkRun(compiled, backend, options, areThreads));
  BRAID_TRY(expectRunMemory(plans, backend, options, areThreads));
  MetRanks ranks = BRAID_TRY(meet(compiled, backend, options, std::move(client)));
  return run(ranks, compiled, plans, options);
}

Result<RunReport> run(const Compiled &compiled, const Backend &backend, const RunOptions &options) {
  BRAID_TRY(checkRun(compiled, backend, options, /*areThreads=*/true));
  std::vector<Plan> plans = BRAID_TRY(makePlans(compiled));
  return run(compiled, plans, backend, options);
}

BackendRegistry builtinBackends() {
  BackendRegistry registry;
  registerCpuBackend(registry);
#ifdef BRAID_HAS_CUDA
  registerGpuBackends(registry);
#endif
  registerNullBackend(registry);
  return registry;
}

} // namespace braid
