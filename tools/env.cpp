//===- tools/env.cpp - `braid env` ------------------------------------------------------------===//

#include "api/ranks/run.h"
#include "ir/printable.h"
#include "runtime/job/bootstrap/environment.h"
#include "tools/command.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace braid::tools {
namespace {

using Found = Result<std::optional<Place>>;
using OrderedJson = nlohmann::ordered_json;

constexpr const char *kEnvFooter = R"(
A process that a launcher started is one rank of a job. Its place comes from one source, the first
of BRAID_*, torchrun, Open MPI, PMI (MPICH, Intel MPI) and SLURM's srun that is there; one that is
partial or contradictory is an error, with exit code 2. What is set but does not count is of a
source that was not chosen, or says what a better variable of its source says. An empty variable is
taken for one that is not set. Ranks started by hand, with BRAID_RANK and BRAID_RANKS, need a
BRAID_JOB if there are several such jobs at once; on several hosts, also BRAID_LOCAL_RANK,
BRAID_LOCAL_RANKS and BRAID_RENDEZVOUS.

  braid env
  mpirun -n 4 braid env --json
  BRAID_RANK=0 BRAID_RANKS=2 BRAID_JOB=mine braid env)";

constexpr size_t kWidestValue = 32, kLongestJob = 200;

std::string describe(const std::optional<Place> &place) {
  if (!place)
    return "no rank of a job: no launcher says anything";
  const std::string host =
      place->hosts > 1 ? fmt::format(" on host {} of {}", place->host, place->hosts) : "";
  return fmt::format("rank {} of {}{}, from {}, in job '{}'", place->rank, place->ranks, host,
                     place->source, printable(place->job, kLongestJob));
}

void printTable(const std::vector<VariableReport> &variables) {
  std::vector<std::array<std::string, 5>> rows = {
      {"variable", "value", "source", "counts", "meaning"}};
  for (const VariableReport &variable : variables)
    rows.push_back({variable.name, variable.value ? printable(*variable.value, kWidestValue) : "-",
                    variable.source, variable.counts ? "yes" : "", variable.meaning});
  std::array<size_t, 4> widths = {};
  for (const auto &row : rows)
    for (size_t column = 0; column < widths.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  for (const auto &row : rows)
    llvm::outs() << fmt::format("{:<{}}  {:<{}}  {:<{}}  {:<{}}  {}\n", row[0], widths[0], row[1],
                                widths[1], row[2], widths[2], row[3], widths[3], row[4]);
}

/// What backends open at run time.
void printLibraries() {
  for (const Backend &backend : builtinBackends().all())
    if (backend.transport == Transport::Messages) {
      const Result<std::string> library = backend.messages();
      llvm::outs() << fmt::format("--backend {}: {}\n", backend.name,
                                  library ? *library : library.status().message());
    }
}

OrderedJson librariesJson() {
  OrderedJson list = OrderedJson::array();
  for (const Backend &backend : builtinBackends().all())
    if (backend.transport == Transport::Messages) {
      const Result<std::string> library = backend.messages();
      list.push_back(
          {{"backend", backend.name},
           {"library", library ? OrderedJson(*library) : OrderedJson()},
           {"error", library ? OrderedJson() : OrderedJson(library.status().message())}});
    }
  return list;
}

OrderedJson placeJson(const Found &place) {
  if (!place || !*place)
    return nullptr;
  const Place &is = **place;
  return {{"source", is.source},
          {"rank", is.rank},
          {"ranks", is.ranks},
          {"local_rank", is.localRank},
          {"local_ranks", is.localRanks},
          {"host", is.host},
          {"hosts", is.hosts},
          {"job", is.job}};
}

void printJson(const Found &place, const std::vector<VariableReport> &variables) {
  OrderedJson list = OrderedJson::array();
  for (const VariableReport &variable : variables)
    list.push_back({{"name", variable.name},
                    {"source", variable.source},
                    {"value", variable.value ? OrderedJson(*variable.value) : OrderedJson()},
                    {"counts", variable.counts},
                    {"meaning", variable.meaning}});
  OrderedJson error;
  if (!place)
    error = {{"code", static_cast<int>(place.status().code())},
             {"message", place.status().message()}};
  OrderedJson json = {{"place", placeJson(place)},
                      {"error", error},
                      {"variables", std::move(list)},
                      {"libraries", librariesJson()}};
  llvm::outs() << json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) << "\n";
}

int envCommand(bool asJson) {
  Environment environment = processEnvironment();
  Found place = findPlace(environment);
  std::vector<VariableReport> variables = reportVariables(environment);
  int exitCode = place ? 0 : report(place.status());
  if (asJson) {
    printJson(place, variables);
    return exitCode;
  }
  if (place)
    llvm::outs() << describe(*place) << "\n\n";
  printTable(variables);
  printLibraries();
  return exitCode;
}

} // namespace

Command addEnv(CLI::App &app) {
  auto asJson = std::make_shared<bool>(false);
  CLI::App *command =
      app.add_subcommand("env", "Print which rank this process is, and each variable read");
  command->add_flag("--json", *asJson, "the same as JSON");
  command->footer(kEnvFooter);
  return {command, [asJson] { return envCommand(*asJson); }};
}

} // namespace braid::tools
