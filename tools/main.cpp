//===- tools/main.cpp - the `braid` command ---------------------------------------------------===//

#include "ir/printable.h"
#include "tools/command.h"
#include "tools/process.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace {

using namespace braid;
using namespace braid::tools;

constexpr const char *kFooter = R"(
Getting started:
  braid compile examples/ag_matmul.braid --ranks 4
  braid run examples/ag_matmul.braid --ranks 4 --iterations 5 --verify

Exit codes: 0 success; 1 wrong result; 2 wrong usage or input; 3 rejected by the checker;
4 unsupported or unavailable here; 5 a peer failed; 6 timed out; 70 internal error;
129, 130, 143 terminated by SIGHUP, SIGINT, SIGTERM.)";

constexpr size_t kLongestMessage = 1000; // command lines may be very long

constexpr const char *kVersion = "braid " BRAID_VERSION;

/// Returns a command's long flags, for spelling suggestions.
std::vector<std::string> flagsOf(const CLI::App &app) {
  std::vector<std::string> flags;
  for (const CLI::Option *option : app.get_options())
    for (const std::string &name : option->get_lnames())
      flags.push_back("--" + name);
  return flags;
}

/// Returns the innermost selected subcommand, or `app` if none is selected, with its full name.
std::pair<const CLI::App &, std::string> chosen(const CLI::App &app) {
  const CLI::App *command = &app;
  std::string name = "braid";
  for (auto parsed = app.get_subcommands(); !parsed.empty(); parsed = command->get_subcommands()) {
    command = parsed.front();
    name += " " + command->get_name();
  }
  return {*command, name};
}

std::string unexpected(const CLI::App &app, const std::vector<tools::Command> &commands) {
  const CLI::App &command = chosen(app).first;
  std::vector<std::string> remaining = app.remaining(/*recurse=*/true);
  std::string word = remaining.empty() ? "" : remaining.front();
  std::vector<std::string> candidates = flagsOf(command);
  if (&command == &app)
    for (const tools::Command &known : commands)
      candidates.push_back(known.app->get_name());
  const char *what = word.rfind('-', 0) == 0 ? "flag" : &command == &app ? "command" : "argument";
  std::string flag = word.substr(0, word.find('='));
  return fmt::format("unknown {} '{}'{}", what, word, didYouMean(flag, candidates));
}

int usageError(const CLI::App &app, const std::string &message) {
  const std::string name = chosen(app).second;
  llvm::errs() << "braid: error: " << printable(message, kLongestMessage) << "\nSee " << name
               << " --help.\n";
  return static_cast<int>(StatusCode::BadInput);
}

/// Returns true if the command line contains an unknown word instead of a command.
bool hasUnknownCommand(const CLI::App &app) {
  return &chosen(app).first == &app && !app.remaining().empty();
}

int parseAndRun(CLI::App &app, const std::vector<tools::Command> &commands, int argc, char **argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &question) { // --help or --version
    if (hasUnknownCommand(app))
      return usageError(app, unexpected(app, commands));
    // app.help() returns the help of the selected subcommand, if any.
    llvm::outs() << (question.get_name() == "CallForVersion" ? kVersion : app.help()) << "\n";
    return 0;
  } catch (const CLI::ExtrasError &) {
    return usageError(app, unexpected(app, commands));
  } catch (const CLI::ParseError &error) {
    return usageError(app, error.what());
  }
  for (const tools::Command &command : commands)
    if (command.app->parsed())
      return command.run();
  return usageError(app, "expected a command: compile, check, run, bench, calibrate, simulate, "
                         "view, explain, doctor or p2p");
}

} // namespace

int main(int argc, char **argv) {
  prepareProcess();
  CLI::App app("Lowers sharded tensor expressions to host programs, and runs them.", "braid");
  app.footer(kFooter);
  app.set_version_flag("--version", kVersion);
  std::vector<tools::Command> commands = {
      addCompile(app), addCheck(app), addRun(app),       addBench(app),    addExplain(app),
      addDoctor(app),  addP2p(app),   addCalibrate(app), addSimulate(app), addView(app)};
  return exitCodeOf([&] { return parseAndRun(app, commands, argc, argv); });
}
