//===- tools/explain.cpp - `braid explain` ----------------------------------------------------===//

#include "runtime/job/explain.h"
#include "ir/failure.h"
#include "runtime/files.h"
#include "tools/command.h"

#include "llvm/Support/raw_ostream.h"

namespace braid::tools {
namespace {

constexpr size_t kMostRecordBytes = 256 << 20;
constexpr const char *kExplainFooter = R"(
Prints why a job failed: the first cause, what each rank was doing, and which ranks had done least.

  braid explain records/host0.json
  braid view --records records/host0.json    the same as a page)";

Result<int> explainCommand(const std::string &file) {
  const std::string text = BRAID_TRY(readFile(file, kMostRecordBytes));
  llvm::outs() << explainRecords(BRAID_TRY(FlightRecords::decode(text, file)));
  return 0;
}

} // namespace

Command addExplain(CLI::App &app) {
  auto file = std::make_shared<std::string>();
  CLI::App *command =
      app.add_subcommand("explain", "Print why a job failed, from its flight records");
  command->add_option("FILE", *file, "flight records")->required();
  command->footer(kExplainFooter);
  return {command, [file] { return runCommand([&](auto &) { return explainCommand(*file); }); }};
}

} // namespace braid::tools
