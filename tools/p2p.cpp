//===- tools/p2p.cpp - `braid p2p` ------------------------------------------------------------===//

#include "tools/p2p.h"

#include "api/machine/ask_nvml.h"
#include "api/pairs/gpu_count.h"
#include "api/pairs/known_links.h"
#include "api/pairs/measuring_rank.h"
#include "api/ranks/run.h"
#include "api/timing/seconds_since.h"
#include "ir/counted.h"
#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/job/bootstrap/environment.h"
#include "tools/process.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace braid::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char *kP2pFooter = R"(
Two devices at a time are measured by two processes: each PATH, both directions, each size; then
all pairs at once. Where time is short, most sizes of up to 1 MiB are left out; larger ones tell
whether a link is slow. Before each run a destination holds the complement of what is to arrive,
and after it every byte is compared. A process that dies, or a transfer that does not end, costs
that path of that pair, and at most one --timeout-ms.

  put-engine, put-kernel   the source writes into the destination's memory: a copy engine, a kernel
  get-engine, get-kernel   the destination reads the source's memory
  messages                 a send and a receive of NCCL
  host                     through memory of the host

Exit codes: 0, for slow pairs too; 1 wrong data; 5 a process died; 6 a transfer did not end.

  braid p2p
  braid p2p --devices 0,3 --paths put-engine,host --max-bytes 1048576
  braid p2p --json pairs.json --html pairs.html)";

void addFlags(CLI::App &app, P2pFlags &flags) {
  addText(app, "--backend", flags.backend, "NAME", "cpu or cuda (default: cuda where GPUs are)");
  addInteger(app, "--ranks", flags.ranks, "N",
             "that many devices, from 0 on (default: all GPUs, or 4 CPU ranks)");
  addInteger(app, "--devices", flags.devices, "GPU",
             "these GPUs, by CUDA's numbers, with commas between them")
      ->delimiter(',')
      ->allow_extra_args(false);
  addText(app, "--paths", flags.paths, "PATH",
          "only these, with commas between them (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false);
  addInteger(app, "--sizes", flags.sizes, "BYTES",
             "of transfers, with commas between them; multiples of 4")
      ->delimiter(',')
      ->allow_extra_args(false);
  addInteger(app, "--min-bytes", flags.minBytes, "BYTES",
             "instead: from here on, each four times the one before (default 4)");
  addInteger(app, "--max-bytes", flags.maxBytes, "BYTES",
             "up to here, as far as memory and time allow (default 1073741824)");
  addInteger(app, "--timeout-ms", flags.timeoutMs, "T",
             "a transfer, or an answer of the driver, that takes longer hangs (default 20000)");
  app.add_flag("--all-paths", flags.allPaths, "print a matrix for each path");
  addText(app, "--json", flags.json, "OUT.json", "write all figures");
  addText(app, "--html", flags.html, "OUT.html", "write a page with heat maps");
  addText(app, "--svg", flags.svg, "OUT.svg", "write a heat map");
  addInteger(app, "--measure-to", flags.results, "FD", "")->group("");
  app.footer(kP2pFooter);
}

/// Numbers of the devices to measure.
Result<std::vector<int64_t>> chooseDevices(const P2pFlags &flags, bool areGpus, int64_t gpus) {
  if (!flags.devices.empty() && flags.ranks)
    return badInput("expected --ranks or --devices, got both");
  if (!flags.devices.empty() && !areGpus)
    return badInput("--devices: expected --backend cuda with it; CPU ranks are alike");
  const bool mayShare = BRAID_TRY(isOn(processEnvironment(), "BRAID_SHARE_GPUS", false));
  std::vector<int64_t> devices = flags.devices;
  if (devices.empty()) {
    devices.resize(static_cast<size_t>(
        std::clamp<int64_t>(flags.ranks.value_or(areGpus ? gpus : 4), 0, 4096)));
    std::iota(devices.begin(), devices.end(), 0);
  }
  const char *flag = flags.devices.empty() ? "--ranks" : "--devices";
  if (flags.ranks && *flags.ranks != static_cast<int64_t>(devices.size()))
    return badInput("expected --ranks to be from 2 to 4096, got {}", *flags.ranks);
  std::vector<int64_t> sorted = devices;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return badInput("expected --devices to name each GPU once");
  if (!sorted.empty() && sorted.front() < 0)
    return badInput("expected --devices to be numbers of GPUs, got {}", sorted.front());
  if (areGpus && !mayShare && !sorted.empty() && sorted.back() >= gpus)
    return unsupported("{}: expected GPUs below {}, got {}; with BRAID_SHARE_GPUS=on ranks may "
                       "share GPUs",
                       flag, gpus, sorted.back());
  if (devices.size() >= 2)
    return devices;
  if (flags.ranks || !flags.devices.empty())
    return badInput("expected {} to give two devices or more, got {}", flag, devices.size());
  return unsupported("expected two GPUs or more to measure between, got {}; with "
                     "BRAID_SHARE_GPUS=on and --ranks 2 ranks may share one",
                     devices.size());
}

/// Says on stderr which pair is next, and when the last one will be done.
class PairProgress {
public:
  void operator()(const MeasureStep &step) const {
    const std::string what = step.source < 0
                                 ? std::string("all pairs at once")
                                 : fmt::format("devices {} and {}", step.source, step.destination);
    const double gone = secondsSince(start_);
    std::string rest;
    if (step.number > 1)
      rest = fmt::format(", about {:.0f} s left",
                         gone / static_cast<double>(step.number - 1) *
                             static_cast<double>(step.count - step.number + 1));
    llvm::errs() << fmt::format("braid: {} of {}: {}{}\n", step.number, step.count, what, rest);
  }

private:
  Clock::time_point start_ = Clock::now();
};

/// The fewer there are, the longer each may take: two GPUs in some twenty seconds, eight in some
/// minutes.
double secondsOfPath(size_t devices, size_t paths) {
  const auto pairs = static_cast<double>(devices * (devices - 1) / 2);
  return std::clamp(28 / (pairs * static_cast<double>(paths)), 1.0, 5.0);
}

/// Unsupported, with the reason, if no path of any pair could be tried.
Status expectAny(const PairReport &report) {
  std::string reason;
  for (const PairRow &row : report.rows)
    for (const PathReport &path : row.paths) {
      if (path.outcome != PathOutcome::NotMeasured && path.outcome != PathOutcome::Unavailable)
        return Status::ok();
      reason = reason.empty() ? path.reason : reason;
    }
  return unsupported("nothing was measured: {}",
                     reason.empty() ? "no size fits into the memory that is free" : reason);
}

/// How GPUs are joined, as far as NVML says. TimedOut if the driver does not answer: whoever asked
/// it anything else would hang, too, so this comes first.
Result<std::optional<Machine>> askMachine(std::chrono::milliseconds patience) {
  const Result<NvmlReport> nvml = askNvml(processEnvironment(), patience);
  if (nvml)
    return std::optional(readMachine(*nvml));
  if (nvml.status().code() == StatusCode::TimedOut)
    return nvml.status();
  return std::optional<Machine>();
}

Result<int> p2p(const P2pFlags &flags, const BackendRegistry &registry) {
  if (flags.results)
    return static_cast<int>(measureAsRank(registry, *flags.results).code());
  BRAID_TRY(checkSettings(processEnvironment()));
  MeasureOptions options;
  BRAID_TRY(readP2pFlags(flags, options));
  BRAID_TRY(checkIsAlone("p2p", processEnvironment()));
  if (flags.backend && *flags.backend != "cpu" && *flags.backend != "cuda")
    return badChoice("--backend", *flags.backend, {"cpu", "cuda"});
  if (flags.backend && !registry.find(*flags.backend))
    return missingBackend(*flags.backend, registry, {"cpu", "cuda"});
  const bool asksForGpus = flags.backend.value_or("cuda") == "cuda" && registry.find("cuda");
  std::optional<Machine> machine;
  if (asksForGpus)
    machine = BRAID_TRY(askMachine(options.timeout));
  const int64_t gpus = asksForGpus ? gpuCount() : 0;
  options.backend = flags.backend.value_or(gpus > 0 ? "cuda" : "cpu");
  const bool areGpus = options.backend == "cuda";
  if (areGpus && gpus == 0)
    return unsupported("--backend cuda: no GPU here");
  options.devices = BRAID_TRY(chooseDevices(flags, areGpus, gpus));
  int toStandardOutput = 0;
  for (const std::string *file : {&flags.json, &flags.html, &flags.svg}) {
    toStandardOutput += *file == "-";
    if (!file->empty())
      BRAID_TRY(checkWritable(*file));
  }
  for (auto [one, other] :
       {std::pair(&flags.json, &flags.html), {&flags.json, &flags.svg}, {&flags.html, &flags.svg}})
    if (areOneFile(*one, *other))
      return badInput("expected --json, --html and --svg to be different files, got '{}' twice",
                      *other);
  if (toStandardOutput > 1)
    return badInput("expected one of --json, --html and --svg to be -, got {}", toStandardOutput);
  options.secondsOfPath = secondsOfPath(options.devices.size(), options.paths.size());
  options.rankCommand = {"braid", "p2p", "--measure-to"};
  options.progress = PairProgress();
  MeasuredPairs measured = BRAID_TRY(measurePairs(options));
  if (machine && areGpus)
    addKnownLinks(measured.report, *machine);
  if (measured.signal != 0)
    llvm::errs() << "braid: interrupted: what follows is what had been measured by then\n";
  BRAID_TRY(printP2p(flags, measured.report, measured.signal != 0));
  if (measured.signal != 0)
    return 128 + measured.signal; // as a shell says it
  BRAID_TRY(expectAny(measured.report));
  return static_cast<int>(outcomeOf(measured.report));
}

} // namespace

Command addP2p(CLI::App &app) { return addP2p(app, builtinBackends); }

Command addP2p(CLI::App &app, std::function<BackendRegistry()> backends) {
  auto flags = std::make_shared<P2pFlags>();
  CLI::App *command =
      app.add_subcommand("p2p", "Measure every pair of devices, and say what is wrong with them");
  addFlags(*command, *flags);
  return {command, [flags, backends] {
            return runCommand([&](std::unique_ptr<Source> &) { return p2p(*flags, backends()); });
          }};
}

} // namespace braid::tools
