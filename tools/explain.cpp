//===- tools/explain.cpp - `braid explain` ----------------------------------------------------===//

#include "ir/failure.h"
#include "runtime/job/flight_page.h"
#include "tools/command.h"
#include "tools/view.h"

#include "llvm/Support/raw_ostream.h"

namespace braid::tools {
namespace {

struct ExplainFlags {
  std::vector<std::string> files;
  bool json = false;
  std::string emit = "text";
};

constexpr const char *kExplainFooter = R"(
Puts the flight records of a failed job side by side: the first cause, what each rank was in, the
first point of the program that some ranks have completed and others have not, and what ran last
before it. Records of some ranks may be missing.

  braid explain records/rank*.json
  braid explain records/rank*.json --emit html > page.html)";

Result<int> explainCommand(const ExplainFlags &flags) {
  if (flags.emit != "text" && flags.emit != "html")
    return badChoice("--emit", flags.emit, {"text", "html"});
  BRAID_TRY(checkOneForm(flags.json, flags.emit));
  const std::vector<FlightRecord> records = BRAID_TRY(readFlightRecords(flags.files));
  if (flags.emit == "html") {
    BRAID_TRY(printFlight(records, flags.files));
    return 0;
  }
  const FlightPage page = BRAID_TRY(merge(records, flags.files));
  llvm::outs() << (flags.json ? toJson(page) : str(page));
  return 0;
}

} // namespace

Command addExplain(CLI::App &app) {
  auto flags = std::make_shared<ExplainFlags>();
  CLI::App *command =
      app.add_subcommand("explain", "Say why a job failed, from its flight records");
  command->add_option("FILE", flags->files, "flight records, one a rank")->required();
  command->add_flag("--json", flags->json, "the page as JSON");
  addText(*command, "--emit", flags->emit, "WHAT", "text (default) or html, a page to look at");
  command->footer(kExplainFooter);
  return {command, [flags] { return runCommand([&](auto &) { return explainCommand(*flags); }); }};
}

} // namespace braid::tools
