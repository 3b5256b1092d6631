//===- tools/flags.cpp - flags common to several subcommands ----------------------------------===//

#include "ir/failure.h"
#include "tools/command.h"

#include "runtime/files.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace braid::tools {

namespace {

constexpr const char *kScheduleFlags = "Schedule of a fusion (a program already has one)";
constexpr const char *kTransferFlags = "How ranks exchange data";

const char *groupOf(const KnobRow &row) {
  if (row.knob == Knob::Launch)
    return "Options";
  return row.isOfRun() ? kTransferFlags : kScheduleFlags;
}

void addKnob(CLI::App &app, const KnobRow &row,
             std::array<std::optional<std::string>, kKnobCount> &knobs) {
  const std::string fallback = row.fallback ? row.str(row.fallback) : "depends on the device";
  addText(app, "--" + row.name, knobs[static_cast<size_t>(row.knob)],
          row.words.empty() ? "N" : llvm::join(row.words, "|"),
          fmt::format("{} (default: {})", row.help, fallback))
      ->group(groupOf(row));
}

} // namespace

void addReproducible(CLI::App &app, bool &isReproducible) {
  app.add_flag("--reproducible", isReproducible,
               "compute bit-identical results from the same inputs, regardless of schedule, number "
               "of rows and timing");
}

void SourceFlags::addTo(CLI::App &app, bool isFileOptional) {
  command = "braid " + app.get_name();
  app.add_option("FILE", file, "a .braid file with a fusion or a program; - is standard input")
      ->required(!isFileOptional);
  addText(app, "--entry", entry, "NAME", "the fusion or program to use, if FILE contains several");
  addInteger(app, "--ranks", ranks, "N", "number of ranks (default: as specified in FILE)");
  addReproducible(app, reproducible);
  addText(app, "--set", set, "NAME=VALUE", "set a parameter of the fusion; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  // compile() refuses flags that affect lowering if FILE contains a program.
  const std::string alternative = isRun && takesAuto ? ", or auto, which finds the fastest" : "";
  addText(
      app, "--schedule", schedule, "SCHEDULE",
      presetNames() + alternative + " (default: " + defaultSchedule +
          "); NAME;KNOB=VALUE changes a knob; TENSOR=SCHEDULE,... sets a schedule for each stage")
      ->group(kScheduleFlags);
  for (const KnobRow &row : allKnobs())
    if (!row.isOfRun() || isRun)
      addKnob(app, row, knobs);
}

Status checkIsAlone(llvm::StringRef expected, llvm::StringRef advice) {
  const Environment environment = processEnvironment();
  const Result<std::optional<Place>> place = findPlace(environment);
  const bool isOfSeveralHosts = place.status().code() == StatusCode::Unsupported;
  if (!isOfSeveralHosts && (!place || !*place || (*place)->ranks == 1))
    return Status::ok();
  const std::string got = isOfSeveralHosts
                              ? place.status().message()
                              : fmt::format("{} specifies rank {} of {}", (*place)->source,
                                            (*place)->rank, (*place)->ranks);
  return badInput("{}, but {}; {}unset {}", expected.str(), got, advice.str(),
                  variablesOfPlace(environment));
}

Status badChoice(llvm::StringRef flag, llvm::StringRef value,
                 const std::vector<std::string> &choices) {
  return badInput("expected {} to be one of {}, got '{}'{}", flag.str(), llvm::join(choices, ", "),
                  value.str(), didYouMean(value, choices));
}

Result<Backend> findBackend(const BackendRegistry &registry, const std::string &name,
                            const std::vector<std::string> &choices) {
  if (name == "gpu") // badChoice() would suggest 'cpu', the nearest spelling
    return badInput("expected --backend to be one of {}, got 'gpu' (did you mean 'cuda'?)",
                    llvm::join(choices, ", "));
  if (!llvm::is_contained(choices, name))
    return badChoice("--backend", name, choices);
  if (const Backend *backend = registry.find(name))
    return *backend;
  return unsupported("--backend {}: this build supports only {}", name,
                     llvm::join(registry.names(), ", "));
}

Status expectOtherFile(llvm::StringRef flag, const std::string &output, const std::string &input) {
  if (!areOneFile(output, input))
    return Status::ok();
  return badInput("expected {} to be a different file from the input '{}', got '{}'", flag.str(),
                  input, output);
}

Result<CompileOptions> SourceFlags::toOptions() const {
  if (ranks && *ranks < 1)
    return badInput("expected --ranks to be at least 1, got {}", *ranks);
  CompileOptions options{.entry = entry, .ranks = ranks, .reproducible = reproducible};
  for (const std::string &text : set) {
    auto [name, value] = llvm::StringRef(text).split('=');
    int64_t number = 0;
    if (name.empty() || value.getAsInteger(10, number))
      return badInput("expected --set NAME=VALUE with a 64-bit integer, got '{}'", text);
    options.parameters.emplace_back(name.str(), number);
  }
  Configuration flags;
  for (const KnobRow &row : allKnobs())
    if (const auto &text = knobs[static_cast<size_t>(row.knob)]) {
      int64_t value = BRAID_TRY(row.parse(*text, "--" + row.name));
      flags.set(row.knob, value);
    }
  const Status read = options.readSchedule(schedule.value_or(""), flags);
  const bool mayBeAuto = isRun && takesAuto;
  if (options.isAuto && !mayBeAuto)
    return badInput("--schedule auto: {} has no ranks to measure on; use braid run --schedule auto "
                    "--explain to see the choice",
                    command);
  if (!read.isOk())
    return badInput("--schedule: {}{}", read.message(),
                    mayBeAuto && !options.isAuto
                        ? "; use --schedule auto to measure schedules and choose one"
                        : "");
  return options;
}

std::string messageOf(const Status &status, const std::string &file) {
  const llvm::StringRef message = status.message();
  const std::string place = Diagnostics(file == "-" ? "<stdin>" : file, "").place({}) + ":";
  if (!file.empty() && message.contains(": error: ") && status.message().starts_with(place))
    return message.rtrim('\n').str() + "\n";
  Diagnostics plain("braid", ""); // truncates long names
  plain.error({}) << status.message();
  return plain.str();
}

int report(const Status &status, const std::string &file) {
  llvm::errs() << messageOf(status, file);
  return static_cast<int>(status.code());
}

Result<LaunchReport> launchRanks(LaunchOptions options, const std::string &success) {
  options.onFailure = [](const Status &cause) { report(cause); };
  LaunchReport job = BRAID_TRY(launch(options));
  for (const std::string &ending : job.endings)
    llvm::errs() << (job.status.isOk()
                         ? "braid: warning: " + success + ", but a rank failed afterwards: "
                         : "")
                 << ending << "\n";
  return job;
}

int runCommand(llvm::function_ref<Result<int>()> command, const std::string &file) {
  const Result<int> code = command();
  return code ? *code : report(code.status(), file);
}

} // namespace braid::tools
