//===- tools/p2p.cpp - `braid p2p`: measures all pairs of devices -----------------------------===//

#include "api/machine/nvml.h"
#include "api/pairs/measure_pairs.h"
#include "api/ranks/backends.h"
#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/job/bootstrap/environment.h"
#include "tools/command.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <map>
#include <numeric>
#include <set>

namespace braid::tools {
namespace {

using std::chrono::milliseconds;

constexpr const char *kP2pFooter = R"(
For each pair of devices, two processes measure the bandwidth of each path in both directions, and
its latency. Every byte that arrives is checked. If a process dies or a transfer does not complete,
the pair and the path are reported, and the other measurements continue.

  put-engine, put-kernel   a copy engine or a kernel of the source writes to the destination
  get-engine, get-kernel   a copy engine or a kernel of the destination reads from the source
  messages                 an NCCL send and receive

Exit codes: 0 all data is correct, even if a pair is slow; 1 wrong data; 5 a process died; 6 a
transfer did not complete.

  braid p2p
  braid p2p --devices 0,3 --paths put-engine,messages --sizes 4,1048576
  braid p2p --json pairs.json --html pairs.html)";

struct P2pFlags {
  std::optional<std::string> backend;
  std::optional<int64_t> ranks;
  std::vector<int64_t> devices;
  std::vector<std::string> paths;
  int64_t timeoutMs = 20000;
  std::string json, html;
  MeterOptions meter; ///< the sizes; in a measuring process, also the steps and the descriptor
};

CLI::Option *withCommas(CLI::Option *option) {
  return option->delimiter(',')->allow_extra_args(false);
}

void addFlags(CLI::App &app, P2pFlags &flags) {
  addText(app, "--backend", flags.backend, "NAME", "cpu or cuda (default: cuda if there are GPUs)");
  addInteger(app, "--ranks", flags.ranks, "N",
             "measure the first N devices (default: all GPUs, or 4 CPU ranks)");
  withCommas(addInteger(app, "--devices", flags.devices, "GPU",
                        "GPUs to measure, as comma-separated CUDA device numbers"));
  withCommas(addText(app, "--paths", flags.paths, "PATH",
                     "comma-separated paths to measure, which are explained below (default: all)"));
  withCommas(addInteger(app, "--sizes", flags.meter.sizes, "BYTES",
                        "transfer sizes, as comma-separated multiples of 4 (default: five sizes "
                        "from 4 to 268435456; on CPU ranks, four sizes up to 16777216)"));
  addInteger(app, "--timeout-ms", flags.timeoutMs, "T",
             "report a transfer or a driver call as hung after this long (default: 20000)");
  addText(app, "--json", flags.json, "OUT.json", "write all measurements as JSON");
  addText(app, "--html", flags.html, "OUT.html",
          "write an HTML page with a color-coded matrix of the pairs");
  withCommas(addInteger(app, "--measure-steps", flags.meter.steps, "STEP", ""))->group("");
  addInteger(app, "--measure-to", flags.meter.results, "FD", "")->group("");
  app.footer(kP2pFooter);
}

Result<std::vector<int64_t>> readSizes(const P2pFlags &flags, bool areGpus) {
  constexpr int64_t kMost = int64_t(1) << 40;
  for (int64_t bytes : flags.meter.sizes)
    if (bytes < 4 || bytes > kMost || bytes % 4 != 0)
      return badInput("expected --sizes to be multiples of 4 from 4 to {}, got {}", kMost, bytes);
  std::set<int64_t> sizes(flags.meter.sizes.begin(), flags.meter.sizes.end());
  if (sizes.empty()) {
    sizes = {4, 64 << 10, 1 << 20, 16 << 20};
    if (areGpus)
      sizes.insert(256 << 20);
  }
  return std::vector<int64_t>(sizes.begin(), sizes.end());
}

Result<std::vector<Path>> readPaths(const P2pFlags &flags) {
  std::vector<std::string> known;
  std::vector<Path> paths;
  for (Path path : kAllPaths) {
    known.push_back(name(path).str());
    if (flags.paths.empty() || llvm::is_contained(flags.paths, known.back()))
      paths.push_back(path);
  }
  for (const std::string &word : flags.paths)
    if (!llvm::is_contained(known, word))
      return badChoice("--paths", word, known);
  return paths;
}

Status checkFlags(const P2pFlags &flags, const BackendRegistry &registry) {
  BRAID_TRY(checkSettings(processEnvironment()));
  BRAID_TRY(checkIsAlone("braid p2p starts its own processes, so it cannot run under a launcher"));
  if (flags.backend)
    BRAID_TRY(findBackend(registry, *flags.backend, {"cpu", "cuda"}));
  if (flags.timeoutMs < 1 || flags.timeoutMs > 86400000)
    return badInput("expected --timeout-ms to be from 1 to 86400000, got {}", flags.timeoutMs);
  if (!flags.devices.empty() && flags.ranks)
    return badInput("--ranks and --devices cannot be used together");
  if (flags.ranks && (*flags.ranks < 2 || *flags.ranks > 4096))
    return badInput("expected --ranks to be from 2 to 4096, got {}", *flags.ranks);
  if (std::set(flags.devices.begin(), flags.devices.end()).size() != flags.devices.size())
    return badInput("--devices must not contain duplicates");
  if (flags.json == "-" && flags.html == "-")
    return badInput("only one of --json and --html can be -");
  for (const std::string &file : {flags.json, flags.html})
    if (!file.empty())
      BRAID_TRY(checkWritable(file));
  return areOneFile(flags.json, flags.html)
             ? badInput("expected --json and --html to be different files, got '{}' for both",
                        flags.html)
             : Status::ok();
}

/// Returns the device numbers to measure.
Result<std::vector<int64_t>> chooseDevices(const P2pFlags &flags, bool areGpus, int64_t gpus) {
  if (!flags.devices.empty() && !areGpus)
    return badInput("--devices requires --backend cuda; CPU ranks have no devices");
  std::vector<int64_t> devices = flags.devices;
  if (devices.empty()) {
    devices.resize(static_cast<size_t>(flags.ranks.value_or(areGpus ? gpus : 4)));
    std::iota(devices.begin(), devices.end(), 0);
  }
  const bool mayShare = BRAID_TRY(isOn(processEnvironment(), "BRAID_SHARE_GPUS", false));
  for (int64_t device : devices)
    if (device < 0 || (areGpus && !mayShare && device >= gpus))
      return unsupported("there is no GPU {}: the number of visible GPUs is {}; set "
                         "BRAID_SHARE_GPUS=on to let ranks share GPUs",
                         device, gpus);
  if (devices.size() < 2)
    return unsupported("a pair needs two GPUs, but only one was selected; to let two ranks share "
                       "one GPU, set BRAID_SHARE_GPUS=on and use --ranks 2");
  return devices;
}

/// Adds the links that NVML reports to `report`.
void addLinks(PairReport &report, const NvmlReport &nvml) {
  const std::vector<std::vector<Link>> links = linksOf(nvml);
  std::map<int64_t, size_t> places; ///< NVML's index of each device
  for (const MeasuredDevice &device : report.devices)
    for (size_t i = 0; i < nvml.devices.size(); ++i)
      if (nvml.devices[i].uuid == device.uuid)
        places[device.number] = i;
  for (PairRow &row : report.rows)
    if (places.count(row.source) && places.count(row.destination))
      row.link = links[places[row.source]][places[row.destination]];
}

/// Prints the report, and writes the JSON and HTML files. Returns the exit code.
Result<int> show(const P2pFlags &flags, const PairReport &report) {
  const bool isAside = flags.json == "-" || flags.html == "-";
  llvm::raw_ostream &os = isAside ? llvm::errs() : llvm::outs();
  os << reportText(report);
  os.flush();
  if (report.signal != 0) {
    llvm::errs() << "braid: interrupted: these are the results so far; no file was written\n";
    return 128 + report.signal; // the shell convention
  }
  // If one file cannot be written, still write the other.
  const Status json = flags.json.empty() ? Status::ok() : writeFile(flags.json, reportJson(report));
  const Status html = flags.html.empty() ? Status::ok() : writeFile(flags.html, reportHtml(report));
  BRAID_TRY(json);
  BRAID_TRY(html);
  const Verdict verdict = report.verdict();
  if (verdict <= Verdict::Unavailable)
    return unsupported("nothing was measured; see the verdicts for the reasons");
  return static_cast<int>(verdict == Verdict::Wrong     ? StatusCode::WrongResult
                          : verdict == Verdict::Crashed ? StatusCode::PeerFailed
                          : verdict == Verdict::Hung    ? StatusCode::TimedOut
                                                        : StatusCode::Ok);
}

Result<int> p2p(const P2pFlags &flags, const BackendRegistry &registry) {
  if (flags.meter.results >= 0) { // as one of the two processes that measure a pair
    const Backend *backend = registry.find(flags.backend.value_or(""));
    return backend ? static_cast<int>(measureAsRank(*backend, flags.meter).code())
                   : Result<int>(badInput("--measure-to requires --backend"));
  }
  BRAID_TRY(checkFlags(flags, registry));
  MeasureOptions options;
  options.timeout = milliseconds(flags.timeoutMs);
  options.paths = BRAID_TRY(readPaths(flags));
  const bool asksForGpus = flags.backend.value_or("cuda") == "cuda" && registry.find("cuda");
  Result<NvmlReport> nvml = NvmlReport();
  if (asksForGpus) // first, because it has a timeout; if it hangs, so would other driver calls
    nvml = askWithin<NvmlReport>(options.timeout, "NVML",
                                 [] { return readNvml(processEnvironment()); });
  if (nvml.status().code() == StatusCode::TimedOut)
    return nvml.status();
  const int64_t gpus = asksForGpus ? gpuCount() : 0;
  options.backend = flags.backend.value_or(gpus > 0 ? "cuda" : "cpu");
  const bool areGpus = options.backend == "cuda";
  if (areGpus && gpus == 0)
    return unsupported("--backend cuda: no GPU found");
  options.sizes = BRAID_TRY(readSizes(flags, areGpus));
  options.devices = BRAID_TRY(chooseDevices(flags, areGpus, gpus));
  const size_t pairs = options.devices.size() * (options.devices.size() - 1) / 2;
  options.progress = [pairs](int64_t one, int64_t other, size_t number) {
    llvm::errs() << fmt::format("braid: {} of {}: devices {} and {}\n", number, pairs, one, other);
  };
  PairReport report = BRAID_TRY(measurePairs(options));
  if (areGpus && nvml)
    addLinks(report, *nvml);
  judge(report);
  return show(flags, report);
}

} // namespace

Command addP2p(CLI::App &app, std::function<BackendRegistry()> backends) {
  auto flags = std::make_shared<P2pFlags>();
  CLI::App *command = app.add_subcommand(
      "p2p", "Measure the links between all devices, and find slow, faulty and hung links");
  addFlags(*command, *flags);
  return {command,
          [flags, backends] { return runCommand([&] { return p2p(*flags, backends()); }); }};
}

} // namespace braid::tools
