//===- tools/doctor.cpp - `braid doctor` ------------------------------------------------------===//

#include "api/doctor/check.h"
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

namespace braid::tools {
namespace {

constexpr const char *kDoctorFooter = R"(
Prints the rank of this process and the variables that Braid reads, and checks whether programs can
run on the GPUs of this machine: driver and libraries, access between GPUs, limits of processes and
containers, power, clocks, errors, environment variables and the folder for measurements. Runs
nothing on a GPU and changes nothing. Each line is ok, a note or a problem; the line below it says
what to do. Under torchrun, mpirun or srun, only the first rank of each host prints its results;
with --json, every rank does, and also lists the variables that are not set.

Exit codes: 0 programs can run, even if there are notes or no GPU; 4 programs cannot run.

  braid doctor
  mpirun -n 4 braid doctor --json)";

// -- The rank's place in a job, and environment variables. --

std::string describe(const std::optional<Place> &place) {
  constexpr size_t kLongestJob = 200;
  if (!place)
    return "not a rank of a job: no launcher variables are set";
  const std::string host =
      place->hosts > 1 ? fmt::format(" on host {} of {}", place->host, place->hosts) : "";
  return fmt::format("rank {} of {}{}, according to {}, in job '{}'", place->rank, place->ranks,
                     host, place->source, printable(place->job, kLongestJob));
}

/// Formats a table of the environment variables that are set.
std::string variablesText(const std::vector<VariableReport> &variables) {
  constexpr size_t kWidestValue = 32;
  std::vector<std::array<std::string, 5>> rows = {
      {"variable", "value", "source", "used", "meaning"}};
  for (const VariableReport &variable : variables)
    if (variable.value)
      rows.push_back({variable.name, printable(*variable.value, kWidestValue), variable.source,
                      variable.counts ? "yes" : "", variable.meaning});
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

void writePlace(JsonWriter &json, const std::optional<Place> &place) {
  if (!place)
    return json.attribute("place", nullptr);
  json.attributeObject("place", [&] {
    json.attribute("source", place->source);
    json.attribute("rank", place->rank);
    json.attribute("ranks", place->ranks);
    json.attribute("local_rank", place->localRank);
    json.attribute("local_ranks", place->localRanks);
    json.attribute("host", place->host);
    json.attribute("hosts", place->hosts);
    json.attribute("job", place->job);
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

// -- The doctor. --

struct DoctorFlags {
  bool asJson = false;
  std::optional<int64_t> ranks;
  int64_t timeoutMs = kNvmlPatience.count();
};

void print(const DoctorFlags &flags, const std::optional<Place> &place, const doctor::Facts &facts,
           const std::vector<doctor::Finding> &findings) {
  const std::vector<VariableReport> variables = reportVariables(processEnvironment());
  if (flags.asJson) {
    JsonWriter json(llvm::outs(), 2);
    json.object([&] {
      doctor::writeMembers(json, facts, findings);
      json.attributeObject("environment", [&] {
        writePlace(json, place);
        json.attributeList("variables", variables, writeVariable);
      });
    });
    llvm::outs() << "\n";
    return;
  }
  llvm::outs() << describe(place) << "\n\n"
               << variablesText(variables) << "\n"
               << doctor::reportText(facts, findings);
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
  if (flags.asJson || !place || place->localRank == 0)
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
      "doctor", "Check whether programs can run on this machine, and suggest fixes");
  command->add_flag("--json", flags->asJson, "print the report as JSON");
  addInteger(*command, "--ranks", flags->ranks, "R",
             "number of ranks to check for (default: one per GPU, or the ranks of the job)");
  addInteger(*command, "--timeout-ms", flags->timeoutMs, "T",
             "how long to wait for the driver (default: 20000)");
  command->footer(kDoctorFooter);
  return {command, [flags] { return runCommand([&] { return doctorCommand(*flags); }); }};
}

} // namespace braid::tools
