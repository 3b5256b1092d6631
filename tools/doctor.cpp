//===- tools/doctor.cpp - `braid doctor`, and its part `braid env` ----------------------------===//

#include "api/doctor/report.h"
#include "api/ranks/backends.h"
#include "ir/failure.h"
#include "ir/printable.h"
#include "tools/command.h"
#include "tools/integer_flag.h"
#include "tools/process.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include <unistd.h>

namespace braid::tools {
namespace {

using Found = Result<std::optional<Place>>;

constexpr const char *kDoctorFooter = R"(
Prints what braid env prints, and checks whether programs can run on the GPUs of this machine:
driver and libraries, access between GPUs, limits of processes and containers, power, clocks,
errors, environment variables, the folder of measurements. It runs nothing on a GPU and changes
nothing. Each line is ok, a note or a problem; the next line says what to do. Started by torchrun,
mpirun or srun, the first rank of each host prints.

Exit codes: 0 programs can run, even if there are notes or no GPU; 4 a problem stops them.

  braid doctor
  braid doctor --json)";

constexpr const char *kEnvFooter = R"(
A process that a launcher started is one rank of a job. Braid reads its number and the number of
ranks from the first of these sources that is set: BRAID_*, torchrun, Open MPI, PMI (MPICH, Intel
MPI), SLURM's srun. A source that is incomplete or contradicts itself is an error (exit code 2).
Other variables are listed as ignored. An empty variable counts as not set.

To start ranks by hand, set BRAID_RANK and BRAID_RANKS. If several such jobs, or jobs of PMI, run on
a host at once, give each its own BRAID_JOB. On several hosts, ranks started by hand also need
BRAID_LOCAL_RANK, BRAID_LOCAL_RANKS and BRAID_RENDEZVOUS.

  braid env
  mpirun -n 4 braid env --json
  BRAID_RANK=0 BRAID_RANKS=2 BRAID_JOB=mine braid env)";

// -- The environment: the place in a job, variables, libraries. --

std::string describe(const std::optional<Place> &place) {
  constexpr size_t kLongestJob = 200;
  if (!place)
    return "not a rank of a job: no variables of a launcher are set";
  const std::string host =
      place->hosts > 1 ? fmt::format(" on host {} of {}", place->host, place->hosts) : "";
  return fmt::format("rank {} of {}{}, from {}, in job '{}'", place->rank, place->ranks, host,
                     place->source, printable(place->job, kLongestJob));
}

std::string variablesText(const std::vector<VariableReport> &variables) {
  constexpr size_t kWidestValue = 32;
  std::vector<std::array<std::string, 5>> rows = {
      {"variable", "value", "source", "counts", "meaning"}};
  for (const VariableReport &variable : variables)
    rows.push_back({variable.name, variable.value ? printable(*variable.value, kWidestValue) : "-",
                    variable.source, variable.counts ? "yes" : "", variable.meaning});
  std::array<size_t, 4> widths = {};
  for (const auto &row : rows)
    for (size_t column = 0; column < widths.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  std::string text;
  for (const auto &row : rows)
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {:<{}}  {}\n", row[0], widths[0], row[1],
                        widths[1], row[2], widths[2], row[3], widths[3], row[4]);
  return text;
}

/// The libraries that backends open at run time, by backend.
std::vector<std::pair<std::string, Result<std::string>>> findLibraries() {
  std::vector<std::pair<std::string, Result<std::string>>> libraries;
  for (const Backend &backend : builtinBackends().all())
    if (backend.transport == Transport::Messages)
      libraries.emplace_back(backend.name, backend.messages());
  return libraries;
}

std::string environmentText(const Found &place, const std::vector<VariableReport> &variables) {
  std::string text = place ? describe(*place) + "\n\n" : "";
  text += variablesText(variables);
  for (const auto &[backend, library] : findLibraries())
    text +=
        fmt::format("--backend {}: {}\n", backend, library ? *library : library.status().message());
  return text;
}

void writePlace(JsonWriter &json, const Place &place) {
  json.object([&] {
    json.attribute("source", place.source);
    json.attribute("rank", place.rank);
    json.attribute("ranks", place.ranks);
    json.attribute("local_rank", place.localRank);
    json.attribute("local_ranks", place.localRanks);
    json.attribute("host", place.host);
    json.attribute("hosts", place.hosts);
    json.attribute("job", place.job);
  });
}

void writeError(JsonWriter &json, const Status &status) {
  json.object([&] {
    json.attribute("code", static_cast<int>(status.code()));
    json.attribute("message", status.message());
  });
}

void writeVariable(JsonWriter &json, const VariableReport &variable) {
  json.object([&] {
    json.attribute("name", variable.name);
    json.attribute("source", variable.source);
    json.attribute("value", variable.value);
    json.attribute("counts", variable.counts);
    json.attribute("meaning", variable.meaning);
  });
}

void writeLibrary(JsonWriter &json, const std::pair<std::string, Result<std::string>> &library) {
  const auto &[backend, found] = library;
  json.object([&, &name = backend, &version = found] {
    json.attribute("backend", name);
    json.attribute("library", version ? std::optional(*version) : std::nullopt);
    json.attribute("error", version ? std::nullopt : std::optional(version.status().message()));
  });
}

void writeEnvironment(JsonWriter &json, const Found &place,
                      const std::vector<VariableReport> &variables) {
  json.object([&] {
    json.attributeBegin("place");
    if (place && *place)
      writePlace(json, **place);
    else
      json.value(nullptr);
    json.attributeEnd();
    json.attributeBegin("error");
    if (place)
      json.value(nullptr);
    else
      writeError(json, place.status());
    json.attributeEnd();
    json.attributeList("variables", variables, writeVariable);
    json.attributeList("libraries", findLibraries(), writeLibrary);
  });
}

void print(llvm::function_ref<void(JsonWriter &)> write) {
  llvm::outs() << jsonText(write, 2) << "\n";
}

int envCommand(bool asJson) {
  const Environment environment = processEnvironment();
  const Found place = findPlace(environment);
  const std::vector<VariableReport> variables = reportVariables(environment);
  const int exitCode = place ? 0 : report(place.status());
  if (asJson)
    print([&](JsonWriter &json) { writeEnvironment(json, place, variables); });
  else
    llvm::outs() << environmentText(place, variables);
  return exitCode;
}

// -- The doctor. --

struct DoctorFlags {
  bool asJson = false;
  std::optional<int64_t> ranks;
  int64_t timeoutMs = kNvmlPatience.count();
};

void print(const DoctorFlags &flags, const std::optional<Place> &place, const doctor::Facts &facts,
           const std::vector<doctor::Finding> &findings) {
  std::vector<VariableReport> variables = reportVariables(processEnvironment());
  if (flags.asJson) {
    return print([&](JsonWriter &json) {
      json.object([&] {
        doctor::writeMembers(json, facts, findings);
        json.attributeBegin("environment");
        writeEnvironment(json, place, variables);
        json.attributeEnd();
      });
    });
  }
  llvm::erase_if(variables, [](const VariableReport &variable) { return !variable.value; });
  llvm::outs() << environmentText(place, variables) << "\n"
               << doctor::reportText(facts, findings, wantsColours(STDOUT_FILENO));
}

Result<int> doctorCommand(const DoctorFlags &flags) {
  if (flags.ranks.value_or(1) < 1)
    return badInput("expected --ranks to be at least 1, got {}", *flags.ranks);
  if (flags.timeoutMs < 1 || flags.timeoutMs > 86400000)
    return badInput("expected --timeout-ms to be from 1 to 86400000, got {}", flags.timeoutMs);
  const std::optional<Place> place = BRAID_TRY(findPlace(processEnvironment()));
  doctor::Sources sources = doctor::processSources(builtinBackends());
  sources.patience = std::chrono::milliseconds(flags.timeoutMs);
  doctor::Facts facts = doctor::readFacts(sources);
  facts.ranks = flags.ranks.value_or(place ? place->localRanks : 0);
  const std::vector<doctor::Finding> findings = doctor::runChecks(facts);
  if (!place || place->localRank == 0)
    print(flags, place, facts, findings);
  const int code = doctor::exitCodeOf(findings);
  if (!facts.isStuck())
    return code;
  llvm::outs().flush();
  std::_Exit(code);
}

} // namespace

Command addDoctor(CLI::App &app) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App *command = app.add_subcommand(
      "doctor", "Check whether programs can run on this machine, and say what to do");
  command->add_flag("--json", flags->asJson, "the same as JSON");
  addInteger(*command, "--ranks", flags->ranks, "R",
             "how many ranks are to run here (default: one for each GPU, or those of the job)");
  addInteger(*command, "--timeout-ms", flags->timeoutMs, "T",
             "how long to wait for the driver (default 20000)");
  command->footer(kDoctorFooter);
  return {command, [flags] {
            return runCommand([&](std::unique_ptr<Source> &) { return doctorCommand(*flags); });
          }};
}

Command addEnv(CLI::App &app) {
  auto asJson = std::make_shared<bool>(false);
  CLI::App *command = app.add_subcommand(
      "env", "Print the rank of this process, and the variables that Braid reads");
  command->add_flag("--json", *asJson, "the same as JSON");
  command->footer(kEnvFooter);
  return {command, [asJson] { return envCommand(*asJson); }};
}

} // namespace braid::tools
