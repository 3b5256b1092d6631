//===- tools/explain.cpp - `braid explain` ----------------------------------------------------===//

#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/job/flight_page.h"
#include "tools/command.h"

#include "llvm/Support/raw_ostream.h"

namespace braid::tools {
namespace {

struct ExplainFlags {
  std::vector<std::string> files;
  bool json = false;
};

constexpr uint64_t kMostBytes = 256 << 20; ///< of a file

constexpr const char *kExplainFooter = R"(
Puts the flight records of a failed job side by side: the first cause, what each rank was in, the
first point of the program that some ranks have completed and others have not, and what ran last
before it. Records of some ranks may be missing.

  braid explain records/rank*.json)";

Result<int> explainCommand(const ExplainFlags &flags) {
  std::vector<FlightRecord> records;
  for (const std::string &path : flags.files) {
    const std::string text = BRAID_TRY(readFile(path, kMostBytes));
    records.push_back(BRAID_TRY(FlightRecord::decode(text, path)));
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
  command->footer(kExplainFooter);
  return {command, [flags] { return runCommand([&](auto &) { return explainCommand(*flags); }); }};
}

} // namespace braid::tools
