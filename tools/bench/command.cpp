//===- tools/bench/command.cpp - `braid bench` ------------------------------------------------===//
//
// The command has a job of processes for its own rows and a worker for those of a rival, and asks
// them for one row at a time. If a row fails or hangs, that is its result, and another job goes on
// with the next one.
//
//===----------------------------------------------------------------------------------------===//

#include "tools/command.h"
#include "api/bench/file_bench.h"
#include "api/compile/check.h"
#include "api/compile/plans.h"
#include "api/ranks/run.h"
#include "ir/failure.h"
#include "runtime/job/bootstrap/environment.h"
#include "tools/bench/bench.h"
#include "tools/bench/worker/serve.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <deque>
#include <filesystem>
#include <thread>

namespace braid::tools {
namespace {

/// A private folder, gone with this object.
class TemporaryFolder {
public:
  TemporaryFolder() {
    path_ = temporaryFolder() + "/braid-bench-XXXXXX";
    isMade_ = mkdtemp(path_.data()) != nullptr;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (isMade_)
      std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  bool isMade() const { return isMade_; }
  const std::string &path() const { return path_; }

private:
  std::string path_;
  bool isMade_ = false;
};

Result<int> bench(BenchFlags flags) {
  BackendRegistry registry = builtinBackends();
  const Backend *backend = registry.find(flags.backend);
  if (!backend)
    return missingBackend(flags.backend, registry, {"cpu", "cuda", "nccl"});
  BRAID_TRY(flags.check(*backend));
  const bool wantsGraphs =
      flags.graph != "no" || llvm::any_of(flags.impl, &BenchFlags::isGraphByName);
  if (wantsGraphs && !backend->hasGraphs)
    return unsupported("graphs: backend '{}' has none", backend->name);
  BRAID_TRY(checkSettings(processEnvironment()));
  if (!flags.requests.empty())
    return benchRank(flags);
  BRAID_TRY(checkIsAlone("bench", processEnvironment()));
  TemporaryFolder folder;
  if (!folder.isMade())
    return unsupported("cannot make a folder like {}", folder.path());
  RanksJob job(flags, folder.path());
  Bench bench(flags, job);
  Status status = Status::ok();
  std::thread thread([&] {
    status = bench.run();
    job.close();
  });
  job.runJobs();
  thread.join();
  if (job.interruptedBy() != 0)
    return 128 + job.interruptedBy(); // as a shell says it
  BRAID_TRY(status);
  return static_cast<int>(bench.firstFailure());
}

std::string namesOfOperations() {
  std::string names;
  for (const Operation &operation : operations())
    names += (names.empty() ? "" : ", ") + operation.name;
  return names;
}

std::string expectedOperation(const std::string &got) {
  return fmt::format("expected an operation ({}) or a FILE, got {}", namesOfOperations(), got);
}

/// Refuses a word that names nothing before its flags are looked at. A rank does not read FILE.
void checkFile(const std::string &file, const BenchFlags &flags) {
  if (flags.requests.empty() && file != "-" && !std::filesystem::exists(file))
    throw CLI::ParseError(expectedOperation("'" + file + "'"), // caught in main
                          CLI::ExitCodes::ValidationError);
}

/// A rank gets what FILE holds on its standard input: FILE itself may have changed, or been read.
Result<int> benchFile(BenchFlags flags, std::unique_ptr<Source> &source) {
  CompileOptions options;
  const std::string &file = flags.source.file;
  const bool isRank = !flags.requests.empty();
  if (file.empty())
    return badInput("{}", expectedOperation("neither"));
  BRAID_TRY(flags.source.toOptions(options));
  source = BRAID_TRY(readSource(isRank ? "-" : file, file == "-" ? "" : file));
  const Compiled compiled = BRAID_TRY(compile(*source, options));
  const std::vector<Plan> plans = BRAID_TRY(makePlans(compiled));
  if (!isRank) // what hangs, or reads what nobody wrote, has no time worth knowing
    BRAID_TRY(expectSafe(compiled, plans, {}));
  const BenchFile read{compiled, options, plans, flags.source.isAuto()};
  flags.operation = fileOperation(read);
  flags.fileText = source->diags.text();
  flags.dtype = name(dtypeOf(read)).str();
  flags.ranks = static_cast<int64_t>(plans.size());
  return bench(std::move(flags));
}

/// Flags of a FILE are none of an operation's, which has its own behind its name.
Status checkNothingBefore(const CLI::App &command, const Operation &operation) {
  for (const CLI::Option *option : command.get_options())
    if (option->count() != 0 && option->get_group() != "")
      return badInput("expected what is asked of {} behind its name, got {} before it",
                      operation.name, option->get_name());
  return Status::ok();
}

constexpr const char *kFooter = R"(
An operation has shapes, and rows for its limits, for the ways to do it and for its rivals: see
braid bench gather-matmul --help, which says what is measured, too. The rows of a FILE are

  of a fusion    gemms and transfers (those of sequential alone), sequential (one part after the
                 other), given (the lowering that the flags ask for), auto (what braid run
                 --schedule auto chooses), chunked (chunked GEMM: the GEMMs of given alone), and
                 schedules; all can have options
  of a program   program, and its gemms and transfers alone

Sums of partial results count as transfers.

  braid bench gather-matmul -m 4096 -n 4096 -k 4096 --ranks 4 --backend cuda
  braid bench examples/ag_matmul.braid --ranks 4 --impl 'given,pairwise;protocol=put')";

} // namespace

Command addBench(CLI::App &app) {
  auto file = std::make_shared<BenchFlags>();
  CLI::App *command =
      app.add_subcommand("bench", "Time an operation, or a FILE, beside its limits");
  command->add_option("--requests", file->requests)->group("");
  command->add_option("--answers", file->answers)->group("");
  file->operation.hasShapes = false;
  file->source.isRun = true;
  file->addTo(*command);
  command->get_option("FILE")->required(false)->each(
      [&flags = *file](const std::string &word) { checkFile(word, flags); });
  command->footer(kFooter);
  auto flags = std::make_shared<std::deque<BenchFlags>>(); // which the options refer to
  for (const Operation &operation : operations()) {
    flags->emplace_back().operation = operation;
    flags->back().addTo(*command->add_subcommand(operation.name, operation.summary));
  }
  return {command, [=] {
            for (BenchFlags each : *flags)
              if (command->got_subcommand(each.operation.name)) {
                each.requests = file->requests;
                each.answers = file->answers;
                return runCommand([&](auto &) -> Result<int> {
                  BRAID_TRY(checkNothingBefore(*command, each.operation));
                  return bench(std::move(each));
                });
              }
            return runCommand([&](auto &source) { return benchFile(*file, source); });
          }};
}

} // namespace braid::tools
