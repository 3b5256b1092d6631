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
  std::vector<std::string> files;
  bool json = false;
};

constexpr const char *kExplainFooter = R"(
Prints why a job failed: the first cause, what each rank was doing, and which ranks had done least.
Records of some ranks may be missing.

  braid explain records/rank*.json
  braid view --records records/rank0.json --records records/rank1.json    the same as a page)";

Result<int> explainCommand(const ExplainFlags &flags) {
  const std::vector<FlightRecord> records = BRAID_TRY(readFlightRecords(flags.files));
  if (flags.json)
    llvm::outs() << llvm::formatv(
        "{0:2}\n", llvm::json::Value(llvm::json::Object{{"missing", missingRanks(records)},
                                                        {"behind", ranksBehind(records)},
                                                        {"records", records}}));
  else
    llvm::outs() << explainRecords(records);
  return 0;
}

} // namespace

Command addExplain(CLI::App &app) {
  auto flags = std::make_shared<ExplainFlags>();
  CLI::App *command =
      app.add_subcommand("explain", "Print why a job failed, from its flight records");
  command->add_option("FILE", flags->files, "flight records, one a rank")->required();
  command->add_flag("--json", flags->json, "the same as JSON, with the records as they are");
  command->footer(kExplainFooter);
  return {command, [flags] { return runCommand([&](auto &) { return explainCommand(*flags); }); }};
}

} // namespace braid::tools
