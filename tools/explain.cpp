//===- tools/explain.cpp - `braid explain` ----------------------------------------------------===//

#include "ir/failure.h"
#include "runtime/job/flight_record.h"
#include "tools/command.h"

#include "llvm/Support/raw_ostream.h"

namespace braid::tools {
namespace {

constexpr const char *kExplainFooter = R"(
Prints why a job failed: the first cause, and what each rank was doing.

  braid explain records/host0.txt
  braid view --records records/host0.txt    the same, as an HTML page)";

Result<int> explainCommand(const std::string &file) {
  const std::vector<std::string> lines = BRAID_TRY(readFlightRecords(file));
  for (const std::string &line : lines)
    llvm::outs() << line << "\n";
  return 0;
}

} // namespace

Command addExplain(CLI::App &app) {
  auto file = std::make_shared<std::string>();
  CLI::App *command =
      app.add_subcommand("explain", "Explain why a job failed, from its flight records");
  command->add_option("FILE", *file, "file with flight records")->required();
  command->footer(kExplainFooter);
  return {command, [file] { return runCommand([&] { return explainCommand(*file); }); }};
}

} // namespace braid::tools
