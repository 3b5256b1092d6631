//===- tools/explain.cpp - `braid explain` ----------------------------------------------------===//

#include "runtime/job/explain.h"
#include "ir/failure.h"
#include "tools/command.h"
#include "tools/view.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

namespace braid::tools {
namespace {

struct ExplainFlags {
  std::string file;
  bool json = false;
};

constexpr const char *kExplainFooter = R"(
Prints why a job failed: the first cause, what each rank was doing, and which ranks had done least.

  braid explain records/host0.json
  braid view --records records/host0.json    the same as a page)";

Result<int> explainCommand(const ExplainFlags &flags) {
  const FlightRecords records = BRAID_TRY(readFlightRecords(flags.file));
  if (flags.json)
    llvm::outs() << llvm::formatv(
        "{0:2}\n", llvm::json::Value(
                       llvm::json::Object{{"behind", ranksBehind(records)}, {"records", records}}));
  else
    llvm::outs() << explainRecords(records);
  return 0;
}

} // namespace

Command addExplain(CLI::App &app) {
  auto flags = std::make_shared<ExplainFlags>();
  CLI::App *command =
      app.add_subcommand("explain", "Print why a job failed, from its flight records");
  command->add_option("FILE", flags->file, "flight records")->required();
  command->add_flag("--json", flags->json, "the same as JSON, with the records as they are");
  command->footer(kExplainFooter);
  return {command, [flags] { return runCommand([&](auto &) { return explainCommand(*flags); }); }};
}

} // namespace braid::tools
