//===- tools/command.h - declarations common to all subcommands of `braid` --------------------===//
#pragma once

#include "api/compile/compile.h"
#include "api/launch/launch.h"
#include "api/ranks/backends.h"
#include "runtime/job/bootstrap/environment.h"
#include "tools/integer_flag.h"

#include <array>
#include <functional>

namespace braid::tools {

/// A subcommand. Its flags are registered in `app`; `run` executes it and returns the exit code.
struct Command {
  CLI::App *app;
  std::function<int()> run;
};

Command addCheck(CLI::App &app);
Command addCompile(CLI::App &app);
Command addExplain(CLI::App &app);
Command addRun(CLI::App &app);
Command addBench(CLI::App &app);
Command addDoctor(CLI::App &app);
Command addP2p(CLI::App &app, std::function<BackendRegistry()> backends = builtinBackends);
Command addCalibrate(CLI::App &app);
Command addSimulate(CLI::App &app);
Command addView(CLI::App &app);

/// The flags for compiling a FILE, common to several commands.
struct SourceFlags {
  std::string command; ///< for messages, such as "braid run"
  std::string file;
  std::optional<std::string> entry;
  std::optional<int64_t> ranks;
  std::vector<std::string> set;
  std::optional<std::string> schedule;
  std::array<std::optional<std::string>, kKnobCount> knobs; ///< the values of --KNOB
  bool reproducible = false;

  bool isRun = false;    ///< true to add the flags for run knobs, and --schedule auto
  bool takesAuto = true; ///< false if the command does not support --schedule auto
  std::string defaultSchedule = "pairwise"; ///< as shown by --help

  void addTo(CLI::App &app, bool isFileOptional = false);
  /// Returns the flags' values. Errors name the flag, and the expected and actual values.
  Result<CompileOptions> toOptions() const;
};

void addReproducible(CLI::App &app, bool &isReproducible);

/// Formats a failure. If it has a location in `file`, which may be "-", its message is unchanged.
/// Otherwise, the message becomes "braid: error: ...". The result ends with a newline.
std::string messageOf(const Status &status, const std::string &file = "");
/// Prints messageOf(), and returns the exit code.
int report(const Status &status, const std::string &file = "");

/// Launches copies of this command as the ranks of a job, and waits for them. If the job fails,
/// prints the reason. Warns of ranks that ended differently from the job; if the job succeeded, the
/// warnings begin with `success`, such as "the run completed".
Result<LaunchReport> launchRanks(LaunchOptions options, const std::string &success);

/// Runs `command`, which returns an exit code or a failure. Reports a failure, and returns the exit
/// code.
int runCommand(llvm::function_ref<Result<int>()> command, const std::string &file = "");

/// Returns BadInput if another launcher has started this process as one of several ranks, each of
/// which would execute the whole command. Ignores incomplete sets of variables, and variables for a
/// single rank, which containers may set. The message begins with `expected`; `advice` names an
/// alternative to unsetting the variables.
Status checkIsAlone(llvm::StringRef expected, llvm::StringRef advice = "");

/// Returns BadInput "expected --flag to be one of a, b, c, got 'x' (did you mean 'a'?)".
Status badChoice(llvm::StringRef flag, llvm::StringRef value,
                 const std::vector<std::string> &choices);

/// Returns the backend `name`. Returns BadInput if `name` is not in `choices`, and Unsupported if
/// the registry does not contain it.
Result<Backend> findBackend(const BackendRegistry &registry, const std::string &name,
                            const std::vector<std::string> &choices);

/// Returns BadInput if `output`, the value of `flag`, is the same file as `input`. Must be called
/// before any work is done. Empty names mean no file.
Status expectOtherFile(llvm::StringRef flag, const std::string &output, const std::string &input);

} // namespace braid::tools
