//===- tools/bench/command.cpp - `braid bench` ------------------------------------------------===//

#include "api/compile/plans.h"
#include "ir/failure.h"
#include "runtime/files.h"
#include "tools/bench/flags.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <deque>
#include <filesystem>

namespace braid::tools {
namespace {

Result<int> bench(BenchFlags flags) {
  const Backend backend =
      BRAID_TRY(findBackend(builtinBackends(), flags.backend, {"cpu", "cuda", "nccl"}));
  BRAID_TRY(flags.check(backend));
  BRAID_TRY(checkSettings(processEnvironment()));
  if (flags.isRank)
    return benchRank(flags, backend);
  BRAID_TRY(
      checkIsAlone("braid bench starts its own processes, so it cannot run under a launcher"));
  if (!flags.json.empty())
    BRAID_TRY(checkWritable(flags.json));
  return BRAID_TRY(launchRanks({.ranks = flags.ranks,
                                .input = flags.file.text,
                                .timeout = std::chrono::milliseconds(flags.timeoutMs)},
                               "the shapes were timed"))
      .exitCode();
}

//===- The flags ------------------------------------------------------------------------------===//

std::string expectedOperation(const std::string &got) {
  auto names = llvm::map_range(operations(), [](const Operation &each) { return each.name; });
  return fmt::format("expected an operation ({}) or a FILE, got {}", llvm::join(names, ", "), got);
}

std::vector<std::string> standardRows(const Compiled &compiled, bool isAuto) {
  if (!compiled.isLowered)
    return {"program", "gemms", "transfers"};
  if (isAuto)
    return {"gemms", "transfers", "sequential", "auto"};
  return {"gemms", "transfers", "sequential", "given", "auto"};
}

/// Ranks read the source from standard input, because FILE may have changed, or may be a pipe.
Result<int> benchFile(BenchFlags flags) {
  const std::string &file = flags.source.file;
  if (file.empty())
    return badInput("{}", expectedOperation("neither"));
  const CompileOptions options = BRAID_TRY(flags.source.toOptions());
  const auto source = BRAID_TRY(readSource(flags.isRank ? "-" : file, file == "-" ? "" : file));
  const Compiled compiled = BRAID_TRY(compile(*source, options));
  const std::vector<Plan> plans = BRAID_TRY(makePlans(compiled));
  if (!flags.isRank) // times of unsafe programs are meaningless
    BRAID_TRY(expectSafe(compiled, plans, {}));
  flags.standard = standardRows(compiled, options.isAuto);
  const std::string name = plans.front().sourceName;
  flags.file = {name, source->diags.text(), options, compiled.isLowered};
  const std::vector<PlanMatmul> &gemms = plans.front().matmuls;
  flags.dtype = braid::name(gemms.empty() ? DType::BF16 : gemms.front().dtype).str();
  flags.ranks = static_cast<int64_t>(plans.size());
  return bench(std::move(flags));
}

/// Refuses a nonexistent FILE before the flags after it are parsed. Ranks never open FILE.
void checkFile(const std::string &file, const BenchFlags &flags) {
  if (!flags.isRank && file != "-" && !std::filesystem::exists(file))
    throw CLI::ParseError(expectedOperation("'" + file + "'"), // main() catches this
                          CLI::ExitCodes::ValidationError);
}

/// Refuses flags before an operation's name, because they would be parsed as flags for a FILE.
Status checkNothingBefore(const CLI::App &command, const Operation &operation) {
  for (const CLI::Option *option : command.get_options())
    if (option->count() != 0)
      return badInput("flags for {} must come after its name, but {} comes before it",
                      operation.name, option->get_name());
  return Status::ok();
}

constexpr const char *kFooter = R"(
braid bench gather-matmul --help describes the rows for a fusion and what is measured; the rows for
a program are program, gemms, transfers and uncoupled.

  braid bench gather-matmul -m 4096 -n 4096 -k 4096 --ranks 4 --backend cuda
  braid bench examples/ag_matmul.braid --ranks 4 --impl 'given,pairwise;protocol=put')";

} // namespace

Command addBench(CLI::App &app) {
  auto file = std::make_shared<BenchFlags>();
  CLI::App *command = app.add_subcommand(
      "bench", "Time an operation or a FILE, along with bounds on its performance");
  file->source.isRun = true;
  file->addTo(*command);
  command->get_option("FILE")->required(false)->each(
      [&flags = *file](const std::string &word) { checkFile(word, flags); });
  command->footer(kFooter);
  auto flags = std::make_shared<std::deque<BenchFlags>>(); // CLI11's options point to the elements
  for (const Operation &operation : operations()) {
    BenchFlags &each = flags->emplace_back();
    each.operation = &operation;
    each.standard = operation.standard;
    each.addTo(*command->add_subcommand(operation.name, operation.summary));
  }
  return {command, [=] {
            for (BenchFlags each : *flags)
              if (command->got_subcommand(each.operation->name)) {
                return runCommand([&]() -> Result<int> {
                  BRAID_TRY(checkNothingBefore(*command, *each.operation));
                  return bench(std::move(each));
                });
              }
            return runCommand([&] { return benchFile(*file); }, file->source.file);
          }};
}

} // namespace braid::tools
