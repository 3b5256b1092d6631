//===- tools/bench/command.cpp - `braid bench` ------------------------------------------------===//
//
// Each shape is timed by a job of its own: what fails there keeps no other shape from being timed,
// and what was prepared is given back.
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
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ctime>
#include <deque>
#include <filesystem>

#include <unistd.h>

namespace braid::tools {
namespace {

using Clock = std::chrono::steady_clock;

/// An empty file that is gone with this object.
class TemporaryFile {
public:
  TemporaryFile() : path_(temporaryFolder() + "/braid-bench-XXXXXX") {
    const int descriptor = mkstemp(path_.data());
    isMade_ = descriptor >= 0;
    if (isMade_)
      ::close(descriptor);
  }
  ~TemporaryFile() {
    if (isMade_)
      ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile &) = delete;
  bool isMade() const { return isMade_; }
  const std::string &path() const { return path_; }

private:
  std::string path_;
  bool isMade_ = false;
};

/// UTC, such as 2026-11-20T12:00:00Z.
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
  /// Returns the exit code: that of the first row or shape that failed.
  Result<int> run();

private:
  bool hasTimeFor(size_t shape) const;
  Status timeShape(size_t index);
  StatusCode takeRows(llvm::StringRef text);
  void note(StatusCode code) { code_ = code_ == StatusCode::Ok ? code : code_; }
  std::string json() const;

  const BenchFlags &flags_;
  const Clock::time_point begin_ = Clock::now();
  double longest_ = 0; ///< seconds of a shape so far
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

/// Adds what rank 0 wrote (rank.h says how). Returns the code of the first row that was refused.
StatusCode Bench::takeRows(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> lines;
  text.consume_back("\n");
  text.split(lines, '\n');
  if (lines.size() < 2)
    return StatusCode::Internal; // rank 0 did not write its report
  int code = 0;
  lines[0].getAsInteger(10, code);
  device_ = lines[1].str(); // empty on CPU ranks
  for (llvm::StringRef row : llvm::drop_begin(lines, 2))
    rows_.push_back(row.str());
  return static_cast<StatusCode>(code);
}

/// A failure in a shape is printed, and ends this shape alone.
Status Bench::timeShape(size_t index) {
  const Clock::time_point begin = Clock::now();
  TemporaryFile file;
  if (!file.isMade())
    return unsupported("cannot make a file like {}", file.path());
  LaunchOptions options;
  options.ranks = flags_.ranks;
  options.arguments =
      commandLine("bench", {"--rank-shape", std::to_string(index), "--rank-rows", file.path()});
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
  const std::string text = BRAID_TRY(readFile(file.path(), size_t(1) << 30));
  note(takeRows(text));
  return Status::ok();
}

/// One row a line: samples are many.
std::string Bench::json() const {
  const BenchFlags &f = flags_;
  std::string text = jsonText(
      [&](JsonWriter &json) {
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
        });
      },
      1);
  text.erase(text.rfind('\n'));
  return fmt::format("{},\n \"rows\": [\n  {}\n ]\n}}\n", text, fmt::join(rows_, ",\n  "));
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
  return signal_ != 0 ? 128 + signal_ : static_cast<int>(code_); // as a shell says it
}

Result<int> bench(BenchFlags flags) {
  const Backend backend =
      BRAID_TRY(findBackend(builtinBackends(), flags.backend, {"cpu", "cuda", "nccl"}));
  BRAID_TRY(flags.check(backend));
  BRAID_TRY(checkSettings(processEnvironment()));
  if (!flags.rankRows.empty())
    return benchRank(flags, backend);
  BRAID_TRY(checkIsAlone("expected no other launcher, for braid bench starts its own processes"));
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

/// A rank gets what FILE holds on its standard input: FILE itself may have changed, or been read.
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
  if (!isRank) // what hangs, or reads what nobody wrote, has no time worth knowing
    BRAID_TRY(expectSafe(compiled, plans, {}));
  flags.standard = standardRows(compiled, options.isAuto);
  const std::string name = plans.front().sourceName;
  flags.file = {name, source->diags.text(), options, compiled.isLowered};
  const std::vector<PlanMatmul> &gemms = plans.front().matmuls;
  flags.dtype = braid::name(gemms.empty() ? DType::BF16 : gemms.front().dtype).str();
  flags.ranks = static_cast<int64_t>(plans.size());
  return bench(std::move(flags));
}

/// Refuses a word that names nothing before its flags are looked at. A rank does not read FILE.
void checkFile(const std::string &file, const BenchFlags &flags) {
  if (flags.rankRows.empty() && file != "-" && !std::filesystem::exists(file))
    throw CLI::ParseError(expectedOperation("'" + file + "'"), // caught in main
                          CLI::ExitCodes::ValidationError);
}

/// Flags before an operation's name would be those of a FILE.
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
  auto flags = std::make_shared<std::deque<BenchFlags>>(); // which the options refer to
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
