//===- tests/fuzz/fuzz_environment.cpp - fuzzes the parser of environment variables -----------===//

#include "ir/printable.h"
#include "runtime/job/bootstrap/environment.h"

#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <map>

namespace {

using namespace braid;
using Variables = std::map<std::string, std::string>;

void require(bool holds, const char *what, const std::string &got) {
  if (holds)
    return;
  llvm::errs() << what << ", got: " << got << "\n";
  std::abort();
}

/// Reads lines of the form NAME=VALUE. In a line without '=', the first byte selects the variable,
/// so that mutations need not find the names of variables.
Variables readLines(llvm::StringRef text) {
  static const std::vector<VariableReport> known =
      reportVariables([](const std::string &) { return std::nullopt; });
  Variables variables;
  llvm::SmallVector<llvm::StringRef, 16> lines;
  text.split(lines, '\n');
  for (llvm::StringRef line : lines) {
    size_t equals = line.find('=');
    if (equals != llvm::StringRef::npos)
      variables[line.take_front(equals).str()] = line.drop_front(equals + 1).str();
    else if (!line.empty())
      variables[known[static_cast<uint8_t>(line[0]) % known.size()].name] = line.drop_front().str();
  }
  return variables;
}

void checkPlace(const Place &place) {
  require(0 <= place.rank && place.rank < place.ranks, "expected a rank in [0, ranks)",
          std::to_string(place.rank) + " of " + std::to_string(place.ranks));
  require(0 <= place.localRank && place.localRank < place.localRanks,
          "expected a local rank in [0, local ranks)",
          std::to_string(place.localRank) + " of " + std::to_string(place.localRanks));
  require(place.localRanks * place.hosts == place.ranks, "expected equally many on each host",
          std::to_string(place.hosts));
  require(place.host == place.rank / place.localRanks &&
              (place.hosts == 1 || place.localRank == place.rank % place.localRanks),
          "expected the ranks of a host to be consecutive", std::to_string(place.host));
  require(!place.job.empty(), "expected a name of the job", "none");
}

/// An error message must be printable and, for BadInput, must name all variables that are set.
void checkError(const Status &status, const std::vector<VariableReport> &variables) {
  require(status.code() == StatusCode::BadInput || status.code() == StatusCode::Unsupported,
          "expected bad input or what is not supported", status.message());
  require(printable(status.message(), status.message().size()) == status.message(),
          "expected a printable message", status.message());
  if (status.code() == StatusCode::BadInput)
    for (const VariableReport &variable : variables)
      require(!variable.value || variable.source == "braid" ||
                  status.message().find(variable.name + "='") != std::string::npos,
              "expected all that is set in the message", status.message());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Variables variables = readLines({reinterpret_cast<const char *>(data), size});
  Environment environment = [&](const std::string &name) -> std::optional<std::string> {
    auto found = variables.find(name);
    const bool isSet = found != variables.end() && !found->second.empty();
    return isSet ? std::optional(found->second) : std::nullopt;
  };
  Result<std::optional<Place>> place = findPlace(environment);
  std::vector<VariableReport> reports = reportVariables(environment);
  bool isChosen = false;
  for (const VariableReport &variable : reports) {
    require(variable.value == environment(variable.name), "expected the value", variable.name);
    require(!variable.counts || variable.value, "expected that only what is set counts",
            variable.name);
    isChosen |= variable.counts && variable.source != "braid";
    if (variable.counts && variable.source != "braid" && place && *place)
      require(variable.source == (*place)->source, "expected one source", variable.source);
  }
  require(isChosen == (!place || *place), "expected a place or an error where a source is chosen",
          place ? "none" : place.status().message());
  if (auto address = rendezvousAddress(environment); address && *address)
    require(!(*address)->host.empty() && (*address)->port != 0, "expected an address",
            (*address)->host);
  else
    require(!environment("BRAID_RENDEZVOUS") || !address, "expected an address or an error",
            "none");
  if (!place)
    checkError(place.status(), reports);
  else if (*place)
    checkPlace(**place);
  return 0;
}
