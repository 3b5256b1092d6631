//===- tools/calibrate.cpp - `braid calibrate` ------------------------------------------------===//
//
// The command starts its own ranks. Rank 0 writes the file before the job commits, so that all
// ranks report the same outcome.
//
//===----------------------------------------------------------------------------------------===//

#include "api/autotune/choose.h"
#include "api/ranks/backends.h"
#include "api/ranks/job_state.h"
#include "ir/counted.h"
#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/files.h"
#include "runtime/job/rank_group.h"
#include "runtime/warn.h"
#include "tools/command.h"
#include "tools/step_progress.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <climits>
#include <thread>

namespace braid::tools {
namespace {

struct CalibrateFlags {
  std::string file;
  std::string backend = "cpu";
  std::optional<int64_t> ranks;
  std::vector<std::string> dtypes, shapes; ///< empty means bf16 and the default shapes
  int64_t timeoutMs = 60000;

  bool usesGpus() const { return backend != "cpu"; }
  std::chrono::milliseconds timeout() const { return std::chrono::milliseconds(timeoutMs); }
};

constexpr const char *kCalibrateFooter = R"(
Measures launches, and copies and signals between ranks, both eagerly and as graphs, for each way to
exchange data. Also measures GEMMs, and messages if the backend supports them. Pass the file to
braid simulate --machine or braid view --machine; --schedule auto does its own measurements instead.
GEMMs of other sizes are estimated from the nearest measured ones, so use --shapes to list the GEMMs
that one rank computes in your models, both with all rows and with the rows of one chunk.

  braid calibrate machine.json --backend cuda
  braid calibrate machine.json --backend cuda --ranks 4 --shapes 512x8192x3584,4096x8192x3584
  braid simulate examples/ag_matmul.braid --ranks 4 --machine machine.json)";

void addFlags(CLI::App &app, CalibrateFlags &flags) {
  app.add_option("OUT.json", flags.file, "file to write the cost model to; - is standard output")
      ->required();
  addText(app, "--backend", flags.backend, "NAME", "cpu (default), cuda or nccl");
  addInteger(app, "--ranks", flags.ranks, "N",
             "number of ranks, one process each (default: all GPUs, or 2 CPU ranks)");
  addText(app, "--dtype", flags.dtypes, "TYPE,...",
          "element types of the GEMMs: bf16 (default), f16, f32, f64")
      ->delimiter(',')
      ->allow_extra_args(false);
  addText(app, "--shapes", flags.shapes, "MxNxK,...",
          "GEMM shapes to measure: M rows, N columns, depth K (default: those of common models)")
      ->delimiter(',')
      ->allow_extra_args(false);
  addInteger(app, "--timeout-ms", flags.timeoutMs, "T",
             "give up if there is no progress for this long (default: 60000)");
  app.footer(kCalibrateFooter);
}

/// Returns the GEMMs in models with 2048 to 16384 columns, unsplit or split across up to 8 devices.
std::vector<PlanMatmul> usualGemms(DType dtype, bool isOnHost) {
  using Extents = std::pair<int64_t, int64_t>;
  const std::vector<Extents> columnsAndDepths =
      isOnHost ? std::vector<Extents>{{256, 256}, {1024, 256}, {256, 1024}, {1024, 1024}}
               : std::vector<Extents>{{1024, 1024},  {2048, 2048},  {4096, 4096}, {8192, 8192},
                                      {1024, 8192},  {8192, 1024},  {3584, 8192}, {8192, 3584},
                                      {7168, 8192},  {8192, 7168},  {1792, 4096}, {4096, 1792},
                                      {14336, 4096}, {4096, 14336}, {8192, 16384}};
  const std::vector<int64_t> rows = isOnHost ? std::vector<int64_t>{16, 64, 256}
                                             : std::vector<int64_t>{64, 256, 1024, 4096, 16384};
  std::vector<PlanMatmul> gemms;
  for (const auto &[n, k] : columnsAndDepths)
    for (int64_t m : rows)
      gemms.push_back({dtype, m, n, k, false, {}, {}, {}, {}});
  return gemms;
}

/// Parses a shape "MxNxK".
Result<PlanMatmul> shapeOf(const std::string &text) {
  constexpr int64_t kMost = int64_t(1) << 24; // tensor sizes in bytes must fit in 64 bits
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(text).split(parts, 'x');
  llvm::SmallVector<int64_t> extents;
  for (llvm::StringRef part : parts)
    if (int64_t extent = 0; !part.getAsInteger(10, extent) && extent >= 1 && extent <= kMost)
      extents.push_back(extent);
  if (parts.size() != 3 || extents.size() != 3)
    return badInput("expected --shapes to be MxNxK,... with values from 1 to {}, got '{}'", kMost,
                    text);
  return PlanMatmul{DType::BF16, extents[0], extents[1], extents[2], false, {}, {}, {}, {}};
}

Result<std::vector<PlanMatmul>> gemmsOf(const CalibrateFlags &flags) {
  std::vector<PlanMatmul> gemms;
  for (const std::string &text :
       flags.dtypes.empty() ? std::vector<std::string>{"bf16"} : flags.dtypes) {
    const std::optional<DType> dtype = dtypeFromName(text);
    if (!dtype)
      return badChoice("--dtype", text, {"bf16", "f16", "f32", "f64"});
    if (flags.shapes.empty())
      llvm::append_range(gemms, usualGemms(*dtype, !flags.usesGpus()));
    for (const std::string &shape : flags.shapes) {
      gemms.push_back(BRAID_TRY(shapeOf(shape)));
      gemms.back().dtype = *dtype;
    }
  }
  return gemms;
}

Status checkFlags(const CalibrateFlags &flags) {
  if (flags.file.empty())
    return badInput("expected OUT.json to be a file or -, got ''");
  if (flags.ranks && *flags.ranks < 1)
    return badInput("expected --ranks to be at least 1, got {}", *flags.ranks);
  if (flags.timeoutMs < 1)
    return badInput("expected --timeout-ms to be at least 1, got {}", flags.timeoutMs);
  return gemmsOf(flags).status();
}

// -- Printing the results. --

std::string rate(double bytesPerUs) { return fmt::format("{:.3g} GB/s", bytesPerUs / 1e3); }

void print(const CalibrateFlags &flags, const CostModel &model) {
  const OperationCosts &costs = model.operations.front();
  double most = 0;
  for (const GemmCost &gemm : model.gemms)
    most = std::max(most, 1e-6 * operationsOf(gemm) / gemm.us);
  llvm::raw_ostream &os = flags.file == "-" ? llvm::errs() : llvm::outs();
  os << fmt::format("{} of {}\n  copies    {} within a rank", counted(model.ranks, "rank"),
                    printable(model.machine), rate(costs.local.bytesPerUs));
  if (model.ranks > 1)
    os << fmt::format(", {} from a peer, {} to a peer; a signal takes {:.1f} µs",
                      rate(costs.pull.bytesPerUs), rate(costs.push.bytesPerUs), costs.signalUs);
  os << fmt::format("\n  GEMMs     {}, up to {:.3g} TFLOP/s\n", model.gemms.size(), most);
  if (flags.file != "-")
    os << fmt::format("To use this model, run: braid simulate FILE --ranks {} --machine {}\n",
                      model.ranks, printable(flags.file, PATH_MAX));
}

// -- One rank. --

/// Measures the machine. Rank 0 writes the file. Collective.
Result<CostModel> measureOn(JobState &ranks, const CalibrateFlags &flags) {
  ControlPlane &control = ranks.cluster->control(ranks.cluster->firstHosted());
  CalibrationOptions options = chooseOptions(ranks.backend, /*ranksAreProcesses=*/true);
  // Message timings are meaningless if ranks share a GPU.
  const bool areShared = BRAID_TRY(isOn(processEnvironment(), "BRAID_SHARE_GPUS", false));
  if (ranks.backend.messages && ranks.backend.transport == Transport::PeerMemory && !areShared)
    options.transports.push_back(Transport::Messages);
  options.warn = warnOnStderr;
  StepProgress progress("calibrate");
  if (control.rank() == 0)
    options.progress = std::ref(progress);
  PlanTimer timer = ranks.timerOn(control.rank());
  const std::vector<PlanMatmul> gemms = BRAID_TRY(gemmsOf(flags));
  CostModel model = BRAID_TRY(measureMachine(timer, options, gemms));
  if (!flags.usesGpus()) // CPU devices have no name
    model.machine = counted(std::thread::hardware_concurrency(), "CPU core");
  if (control.rank() == 0)
    BRAID_TRY(writeFile(flags.file, model.encode()));
  BRAID_TRY(control.commit());
  return model;
}

Status measureAsRank(const CalibrateFlags &flags, const Backend &backend, const Place &place) {
  const auto job =
      BRAID_TRY(JobState::join(backend, {.ranks = place.ranks, .timeout = flags.timeout()}, place));
  const Result<CostModel> model = measureOn(*job, flags);
  if (!model) // report before leaving, or other ranks would report that this rank left
    return job->fail(model.status());
  if (place.rank == 0)
    print(flags, *model);
  return Status::ok();
}

// -- All ranks. --

Result<int> launchRanks(const CalibrateFlags &flags) {
  BRAID_TRY(
      checkIsAlone("braid calibrate starts its own processes, so it cannot run under a launcher"));
  BRAID_TRY(checkWritable(flags.file));
  const int64_t ranks = flags.ranks.value_or(flags.usesGpus() ? gpuCount() : 2);
  if (ranks == 0)
    return unsupported("--backend {}: no GPU found", flags.backend);
  BRAID_TRY(checkGroup("processes", ranks, flags.timeout()));
  return BRAID_TRY(tools::launchRanks({.ranks = ranks, .timeout = flags.timeout()},
                                      "the file is complete"))
      .exitCode();
}

Result<int> calibrateCommand(const CalibrateFlags &flags) {
  const Backend backend =
      BRAID_TRY(findBackend(builtinBackends(), flags.backend, {"cpu", "cuda", "nccl"}));
  BRAID_TRY(checkFlags(flags));
  BRAID_TRY(checkSettings(processEnvironment()));
  const Result<std::optional<Place>> place = findPlace(processEnvironment());
  if (place && *place && !(*place)->meeting.empty()) // this command started this rank
    return static_cast<int>(measureAsRank(flags, backend, **place).code());
  return launchRanks(flags);
}

} // namespace

Command addCalibrate(CLI::App &app) {
  auto flags = std::make_shared<CalibrateFlags>();
  CLI::App *command =
      app.add_subcommand("calibrate", "Measure this machine's performance for braid simulate");
  addFlags(*command, *flags);
  return {command, [flags] { return runCommand([&] { return calibrateCommand(*flags); }); }};
}

} // namespace braid::tools
