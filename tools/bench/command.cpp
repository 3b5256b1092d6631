//===- tools/bench/command.cpp - `braid bench` ------------------------------------------------===//
//
// Each shape is timed by a separate job, so that a failure does not affect other shapes, and memory
// is released between shapes.
//
//===----------------------------------------------------------------------------------------===//

#include "api/compile/check.h"
#include "api/compile/plans.h"
#include "api/launch/launch.h"
#include "api/launch/signals.h"
#include "api/ranks/backends.h"
#include "api/timing/seconds_since.h"
#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/host_name.h"
#include "runtime/job/bootstrap/environment.h"
#include "tools/bench/rank.h"
#include "tools/process.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <ctime>
#include <deque>
#include <filesystem>

namespace braid::tools {
namespace {

using Clock = std::chrono::steady_clock;

/// Returns the time in UTC, such as 2026-11-20T12:00:00Z.
std::string timeNow() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
  return text;
}

class Bench {
public:
  explicit Bench(const BenchFlags &flags) : flags_(flags) {}
  /// Returns the exit code: that of the first failed row or shape.
  Result<int> run();

private:
  bool hasTimeFor(size_t shape) const;
  Status timeShape(size_t index);
  StatusCode takeRows(llvm::StringRef text);
  void note(StatusCode code) { code_ = code_ == StatusCode::Ok ? code : code_; }
  std::string json() const;

  const BenchFlags &flags_;
  const Clock::time_point begin_ = Clock::now();
  double longest_ = 0; ///< longest time of a shape so far, in seconds
  StatusCode code_ = StatusCode::Ok;
  SignalWatch signals_; ///< between launches, too: an interrupted benchmark still writes its rows
  int signal_ = 0;
  std::string device_;
  std::vector<std::string> rows_; ///< JSON, each on one line
};

bool Bench::hasTimeFor(size_t shape) const {
  const double end = secondsSince(begin_) + (shape == 0 ? 0 : longest_);
  return flags_.timeLimit == 0 || end < double(flags_.timeLimit);
}

/// Adds the rows that rank 0 wrote (see rank.h). Returns the code of the first refused row.
StatusCode Bench::takeRows(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> lines;
  text.consume_back("\n");
  text.split(lines, '\n');
  if (lines.size() < 2)
    return StatusCode::Internal; // rank 0 did not write its report
  int code = 0;
  lines[0].getAsInteger(10, code);
  device_ = lines[1].str(); // empty for CPU ranks
  for (llvm::StringRef row : llvm::drop_begin(lines, 2))
    rows_.push_back(row.str());
  return static_cast<StatusCode>(code);
}

/// Times a shape. A failure is printed, and affects only this shape.
Status Bench::timeShape(size_t index) {
  const Clock::time_point begin = Clock::now();
  namespace fs = llvm::sys::fs;
  const std::string pattern = temporaryFolder() + "/braid-bench-%%%%%%%%";
  llvm::SmallString<128> path;
  if (fs::createUniqueFile(pattern, path, fs::owner_read | fs::owner_write))
    return unsupported("cannot make a file like {}", pattern);
  const llvm::FileRemover remover(path);
  const std::string file = path.str().str();
  LaunchOptions options;
  options.ranks = flags_.ranks;
  options.arguments =
      commandLine("bench", {"--rank-shape", std::to_string(index), "--rank-rows", file});
  options.input = flags_.file.text;
  options.timeout = std::chrono::milliseconds(flags_.timeoutMs);
  options.onFailure = sayCause;
  options.signals = &signals_;
  const LaunchReport report = BRAID_TRY(launch(options));
  signal_ = report.signal;
  sayEndings(report, "the shape was timed");
  note(report.isOutputLost ? StatusCode::Unsupported : report.status.code());
  longest_ = std::max(longest_, secondsSince(begin));
  if (!report.status.isOk())
    return Status::ok();
  const std::string text = BRAID_TRY(readFile(file, size_t(1) << 30));
  note(takeRows(text));
  return Status::ok();
}

/// Returns the results, with one line per row, since rows have many samples.
std::string Bench::json() const {
  const BenchFlags &f = flags_;
  auto write = [&](JsonWriter &json) {
    json.object([&] {
      json.attribute("operation", f.operation ? f.operation->name : f.file.file);
      json.attribute("dtype", f.dtype);
      json.attribute("ranks", f.ranks);
      json.attribute("backend", f.backend);
      json.attribute("reproducible", f.source.reproducible);
      json.attribute("rounds", f.rounds);
      json.attribute("iterations", f.iterations);
      json.attribute("bursts", f.bursts);
      json.attribute("row_ms", f.rowMs);
      json.attribute("date", timeNow());
      json.attribute("device", device_);
      json.attribute("host", hostName());
      json.attribute("version", BRAID_VERSION);
      json.attributeArray("rows", [&] {
        for (const std::string &row : rows_)
          json.rawValue(row);
      });
    });
  };
  return jsonText(write, 1) + "\n";
}

Result<int> Bench::run() {
  if (!flags_.json.empty())
    BRAID_TRY(checkWritable(flags_.json));
  const std::vector<BenchShape> shapes = flags_.shapes();
  for (size_t i = 0; i < shapes.size() && signal_ == 0; ++i) {
    const std::string title = flags_.titleOf(shapes[i]);
    if (!hasTimeFor(i)) {
      llvm::errs() << fmt::format("braid: --time-limit: {} of {} shapes are done, {} is next\n", i,
                                  shapes.size(), title);
      break;
    }
    llvm::errs() << fmt::format("braid: {}: shape {} of {}\n", title, i + 1, shapes.size());
    BRAID_TRY(timeShape(i));
    if (signal_ == 0)
      signal_ = signals_.take();
    if (!flags_.json.empty() && isReplacedAsAWhole(flags_.json))
      BRAID_TRY(writeFile(flags_.json, json()));
  }
  if (!flags_.json.empty() && !isReplacedAsAWhole(flags_.json))
    BRAID_TRY(writeFile(flags_.json, json()));
  return signal_ != 0 ? 128 + signal_ : static_cast<int>(code_); // as in a shell
}

Result<int> bench(BenchFlags flags) {
  const Backend backend =
      BRAID_TRY(findBackend(builtinBackends(), flags.backend, {"cpu", "cuda", "nccl"}));
  BRAID_TRY(flags.check(backend));
  BRAID_TRY(checkSettings(processEnvironment()));
  if (!flags.rankRows.empty())
    return benchRank(flags, backend);
  BRAID_TRY(
      checkIsAlone("braid bench starts its own processes, so it cannot run under a launcher"));
  return Bench(flags).run();
}

//===- The flags ------------------------------------------------------------------------------===//

std::string expectedOperation(const std::string &got) {
  std::string names;
  for (const Operation &operation : operations())
    names += (names.empty() ? "" : ", ") + operation.name;
  return fmt::format("expected an operation ({}) or a FILE, got {}", names, got);
}

std::vector<std::string> standardRows(const Compiled &compiled, bool isAuto) {
  if (!compiled.isLowered)
    return {"program", "gemms", "transfers"};
  if (isAuto)
    return {"gemms", "transfers", "sequential", "auto"};
  return {"gemms", "transfers", "sequential", "given", "auto"};
}

/// Ranks read FILE's text from standard input, since FILE may have changed, or be a pipe.
Result<int> benchFile(BenchFlags flags, std::unique_ptr<Source> &source) {
  CompileOptions options;
  const std::string &file = flags.source.file;
  const bool isRank = !flags.rankRows.empty();
  if (file.empty())
    return badInput("{}", expectedOperation("neither"));
  BRAID_TRY(flags.source.toOptions(options));
  source = BRAID_TRY(readSource(isRank ? "-" : file, file == "-" ? "" : file));
  const Compiled compiled = BRAID_TRY(compile(*source, options));
  const std::vector<Plan> plans = BRAID_TRY(makePlans(compiled));
  if (!isRank) // times of unsafe programs are meaningless
    BRAID_TRY(expectSafe(compiled, plans, {}));
  flags.standard = standardRows(compiled, options.isAuto);
  const std::string name = plans.front().sourceName;
  flags.file = {name, source->diags.text(), options, compiled.isLowered};
  const std::vector<PlanMatmul> &gemms = plans.front().matmuls;
  flags.dtype = braid::name(gemms.empty() ? DType::BF16 : gemms.front().dtype).str();
  flags.ranks = static_cast<int64_t>(plans.size());
  return bench(std::move(flags));
}

/// Refuses an unknown word before parsing its flags. Ranks do not read FILE.
void checkFile(const std::string &file, const BenchFlags &flags) {
  if (flags.rankRows.empty() && file != "-" && !std::filesystem::exists(file))
    throw CLI::ParseError(expectedOperation("'" + file + "'"), // caught in main
                          CLI::ExitCodes::ValidationError);
}

/// Refuses flags before an operation's name, which would be those of a FILE.
Status checkNothingBefore(const CLI::App &command, const Operation &operation) {
  for (const CLI::Option *option : command.get_options())
    if (option->count() != 0 && option->get_group() != "")
      return badInput("expected the flags of {} after its name, got {} before it", operation.name,
                      option->get_name());
  return Status::ok();
}

constexpr const char *kFooter = R"(
braid bench gather-matmul --help says what the rows of a fusion are, and what is measured; a program
has the rows program, gemms, transfers and uncoupled.

  braid bench gather-matmul -m 4096 -n 4096 -k 4096 --ranks 4 --backend cuda
  braid bench examples/ag_matmul.braid --ranks 4 --impl 'given,pairwise;protocol=put')";

} // namespace

Command addBench(CLI::App &app) {
  auto file = std::make_shared<BenchFlags>();
  CLI::App *command =
      app.add_subcommand("bench", "Time an operation or a FILE, and what limits it");
  command->add_option("--rank-shape", file->rankShape)->group("");
  command->add_option("--rank-rows", file->rankRows)->group("");
  file->source.isRun = true;
  file->addTo(*command);
  command->get_option("FILE")->required(false)->each(
      [&flags = *file](const std::string &word) { checkFile(word, flags); });
  command->footer(kFooter);
  auto flags = std::make_shared<std::deque<BenchFlags>>(); // the options refer to it
  for (const Operation &operation : operations()) {
    BenchFlags &each = flags->emplace_back();
    each.operation = &operation;
    each.standard = operation.standard;
    each.addTo(*command->add_subcommand(operation.name, operation.summary));
  }
  return {command, [=] {
            for (BenchFlags each : *flags)
              if (command->got_subcommand(each.operation->name)) {
                each.rankShape = file->rankShape;
                each.rankRows = file->rankRows;
                return runCommand([&](auto &) -> Result<int> {
                  BRAID_TRY(checkNothingBefore(*command, *each.operation));
                  return bench(std::move(each));
                });
              }
            return runCommand([&](auto &source) { return benchFile(*file, source); });
          }};
}

} // namespace braid::tools
