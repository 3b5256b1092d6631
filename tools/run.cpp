//===- tools/run.cpp - `braid run` ------------------------------------------------------------===//

#include "api/run.h"
#include "api/check.h"
#include "tools/command.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace braid::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct RunFlags {
  SourceFlags source;
  std::string backend = "cpu";
  int64_t iterations = 1;
  bool verify = false;
  uint64_t seed = 1;
  std::optional<uint64_t> scheduleSeed;
  uint32_t queues = 0;
  int64_t timeoutMs = 60000;
  std::string trace;
  bool noCheck = false;
  bool explain = false;
  bool processes = false;
  bool graph = false;
};

constexpr const char *kFooter = R"(
The program is checked across all ranks first, as braid check does; one that is not safe is not run.
Inputs are drawn afresh for every iteration and outputs are overwritten with NaNs before it. With
--verify every element of every output is compared, exactly, with a reference computed from the
fusion's definition alone.

  braid run examples/ag_matmul.braid --ranks 4 --iterations 20 --verify
  braid run examples/ag_linear.braid --ranks 8 --schedule hop --chunks 16 --trace hop.json)";

void addFlags(CLI::App &app, RunFlags &flags) {
  flags.source.addTo(app);
  app.add_option("--backend", flags.backend,
                 "cpu (default), cuda, nccl, or null (computes nothing)")
      ->type_name("NAME");
  app.add_option("--iterations", flags.iterations, "how many runs, one after another (default 1)")
      ->type_name("I");
  app.add_flag("--verify", flags.verify, "compare every result with the reference");
  app.add_option("--seed", flags.seed, "draws the inputs (default 1)")->type_name("S");
  app.add_option("--schedule-seed", flags.scheduleSeed,
                 "run commands one at a time, in an order drawn from this seed")
      ->type_name("S");
  app.add_option("--queues", flags.queues,
                 "let stream k share queue k mod Q (default: a queue for each)")
      ->type_name("Q");
  app.add_option("--timeout-ms", flags.timeoutMs,
                 "give up after this long without progress (default 60000)")
      ->type_name("T");
  app.add_option("--trace", flags.trace, "write what ran when, for https://ui.perfetto.dev")
      ->type_name("OUT.json");
  app.add_flag("--no-check", flags.noCheck, "do not prove the program safe first");
  app.add_flag("--explain", flags.explain, "say what was chosen, and why");
  app.add_flag("--processes", flags.processes, "one process per rank (not in this version)");
  app.add_flag("--graph", flags.graph, "replay as a CUDA graph (not in this version)");
  app.footer(kFooter);
}

/// Refuses what this build cannot honour; nothing falls back silently.
Status findBackend(const RunFlags &flags, const BackendRegistry &registry,
                   const Backend *&backend) {
  if (flags.processes)
    return Status(StatusCode::Unsupported,
                  "--processes: ranks as processes are not part of this version; leave it out to "
                  "run them as threads");
  if (flags.graph)
    return Status(StatusCode::Unsupported, "--graph: needs the cuda backend, which is not part of "
                                           "this version");
  backend = registry.find(flags.backend);
  if (backend)
    return Status::ok();
  if (flags.backend == "cuda" || flags.backend == "nccl")
    return Status(
        StatusCode::Unsupported,
        fmt::format("--backend {}: not part of this build; it has cpu and null", flags.backend));
  return badChoice("--backend", flags.backend, {"cpu", "cuda", "nccl", "null"});
}

/// Speaks up on stderr every two seconds of a long run.
class Progress {
public:
  explicit Progress(int64_t iterations) : iterations_(iterations) {}

  void operator()(int64_t done) {
    Clock::time_point now = Clock::now();
    if (now - last_ < std::chrono::seconds(2) || done == iterations_)
      return;
    last_ = now;
    double elapsed = std::chrono::duration<double>(now - start_).count();
    double left = elapsed / static_cast<double>(done) * static_cast<double>(iterations_ - done);
    llvm::errs() << fmt::format("braid: iteration {} of {}, {:.0f} s gone, about {:.0f} s left\n",
                                done, iterations_, elapsed, left);
  }

private:
  int64_t iterations_;
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

/// Written under another name first, so that a reader never sees half a trace.
Status writeFile(const std::string &path, const std::string &text) {
  std::string temporary = path + ".part";
  std::error_code error;
  llvm::raw_fd_ostream os(temporary, error);
  if (!error) {
    os << text;
    os.close();
    error = os.error();
    os.clear_error();
  }
  if (!error)
    error = llvm::sys::fs::rename(temporary, path);
  if (error)
    return Status(StatusCode::BadInput,
                  fmt::format("cannot write '{}': {}", path, error.message()));
  return Status::ok();
}

std::string timeText(double seconds) {
  if (seconds >= 1)
    return fmt::format("{:.2f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.2f} ms", seconds * 1e3)
                         : fmt::format("{:.1f} us", seconds * 1e6);
}

void printSummary(const RunFlags &flags, const Compiled &compiled, const RunReport &report) {
  std::string compared = "nothing (--verify compares every element with a reference)";
  if (flags.verify)
    compared = fmt::format("{} elements with the reference for @{}: all equal",
                           report.elementsCompared, compiled.fusion->name());
  llvm::outs() << fmt::format(
      "@{} on {} ranks of backend {}, {} iterations with fresh inputs\n"
      "  compared  {}\n"
      "  time      {} an iteration, {} in all; prepared in {}\n"
      "  program   {} commands a run on rank 0, on {} streams besides the caller's; {}\n",
      compiled.program->name(), report.ranks, flags.backend, report.iterations, compared,
      timeText(report.runSeconds / static_cast<double>(report.iterations)),
      timeText(report.runSeconds), timeText(report.prepareSeconds), report.commandsPerRun,
      report.streams, flags.noCheck ? "not checked" : "proved safe");
  if (!flags.trace.empty())
    llvm::outs() << fmt::format("  trace     {} (open it in https://ui.perfetto.dev)\n",
                                flags.trace);
}

std::string chosenBy(bool isUsers) { return isUsers ? "as asked" : "the default"; }

void printChoices(const RunFlags &flags, const Compiled &compiled, const RunReport &report) {
  const SourceFlags &source = flags.source;
  auto line = [](llvm::StringRef what, const std::string &value, const std::string &why) {
    llvm::outs() << fmt::format("  {:<12}{}: {}\n", what.str(), value, why);
  };
  llvm::outs() << "choices\n";
  if (compiled.isLowered) {
    line("schedule", source.schedule.value_or("pairwise"), chosenBy(source.schedule.has_value()));
    line("protocol", source.protocol.value_or("get"), chosenBy(source.protocol.has_value()));
    line("streams", std::to_string(source.streams.value_or(LoweringOptions().streams)),
         chosenBy(source.streams.has_value()));
    line("chunks", source.chunks ? std::to_string(*source.chunks) : "one a slice",
         chosenBy(source.chunks.has_value()));
  } else {
    line("program", "@" + compiled.program->name(), "read from the file, not lowered");
  }
  line("in flight", std::to_string(report.runsInFlight),
       fmt::format("runs issued before the host waits; at most {}, and a gigabyte of inputs and "
                   "outputs",
                   kMaxRunsInFlight));
}

RunOptions toOptions(const RunFlags &flags, Progress &progress) {
  RunOptions options;
  options.iterations = flags.iterations;
  options.verify = flags.verify;
  options.seed = flags.seed;
  options.timeout = std::chrono::milliseconds(flags.timeoutMs);
  options.scheduleSeed = flags.scheduleSeed;
  options.queues = flags.queues;
  options.trace = !flags.trace.empty();
  options.progress = [&progress](int64_t done) { progress(done); };
  return options;
}

/// Rejected with the counterexample, unless the program is safe on as many queues as it will have.
Status checkFirst(const RunFlags &flags, const Compiled &compiled) {
  Result<CheckReport> report = checkProgram(compiled, {.queues = flags.queues});
  if (!report)
    return report.status();
  if (report->isSafe())
    return Status::ok();
  return Status(StatusCode::Rejected, fmt::format("@{} is {}--no-check runs it all the same",
                                                  compiled.program->name(), str(*report)));
}

int runCommand(const RunFlags &flags) {
  BackendRegistry registry = builtinBackends();
  const Backend *backend = nullptr;
  if (Status status = findBackend(flags, registry, backend); !status.isOk())
    return report(status);
  if (flags.timeoutMs < 1)
    return report(
        Status(StatusCode::BadInput,
               fmt::format("expected --timeout-ms to be at least 1, got {}", flags.timeoutMs)));
  CompileOptions compileOptions;
  if (Status status = flags.source.toOptions(compileOptions); !status.isOk())
    return report(status);
  Result<std::unique_ptr<Source>> source = readSource(flags.source.file);
  if (!source)
    return report(source.status());
  Result<Compiled> compiled = compile(**source, compileOptions);
  if (!compiled)
    return report(compiled.status(), source->get());
  if (!flags.noCheck)
    if (Status status = checkFirst(flags, *compiled); !status.isOk())
      return report(status, source->get());

  Progress progress(flags.iterations);
  Result<RunReport> outcome = run(*compiled, *backend, toOptions(flags, progress));
  if (!outcome)
    return report(outcome.status(), source->get());
  if (!flags.trace.empty())
    if (Status status = writeFile(flags.trace, outcome->trace); !status.isOk())
      return report(status);
  printSummary(flags, *compiled, *outcome);
  if (flags.explain)
    printChoices(flags, *compiled, *outcome);
  return 0;
}

} // namespace

Command addRun(CLI::App &app) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App *command = app.add_subcommand("run", "Run a fusion or program on all ranks");
  addFlags(*command, *flags);
  return {command, [flags] { return runCommand(*flags); }};
}

} // namespace braid::tools
