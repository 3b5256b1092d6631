//===- tools/command.h - declarations common to all subcommands of `braid` --------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/job/bootstrap/environment.h"
#include "tools/integer_flag.h"

#include <array>
#include <functional>

namespace braid {
class BackendRegistry;
struct Backend;
struct LaunchReport;
} // namespace braid

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
Command addP2p(CLI::App &app);
Command addCalibrate(CLI::App &app);
Command addSimulate(CLI::App &app);
Command addView(CLI::App &app);

/// The flags for the compilation of a FILE, common to several commands.
struct SourceFlags {
  std::string command; ///< "braid run"
  std::string file;
  std::optional<std::string> entry;
  std::optional<int64_t> ranks;
  std::vector<std::string> set;
  std::optional<std::string> schedule;
  std::array<std::optional<std::string>, kKnobCount> knobs; ///< the values of --KNOB
  bool reproducible = false;

  bool isRun = false;    ///< adds flags for the knobs of the run, and --schedule auto
  bool takesAuto = true; ///< false if --schedule auto is not supported
  std::string defaultSchedule = "pairwise"; ///< for help

  /// Adds the flags. FILE is optional if `isFileOptional`.
  void addTo(CLI::App &app, bool isFileOptional = false);
  /// Converts the values to `options`. BadInput names the flag and the expected and actual value.
  Status toOptions(CompileOptions &options) const;
};

/// Adds --reproducible.
void addReproducible(CLI::App &app, bool &isReproducible);

/// Formats a failure: unchanged if it is located in `file`, otherwise as "braid: error: ...". Ends
/// with a line break.
std::string messageOf(const Status &status, const std::string &file = "");
/// Prints a failure: the source's located messages if there are any, otherwise "braid: error: ...".
/// Returns the exit code.
int report(const Status &status, const Source *source = nullptr);

/// Print why a job failed, and which ranks ended differently from the job. `success` is what is
/// true even so if the job succeeded, such as "the run was complete".
void sayCause(const Status &cause);
void sayEndings(const LaunchReport &report, const std::string &success);

/// Runs a command, which returns its exit code or fails and sets `source` to the text that it
/// reads. Prints a failure. Returns the exit code.
int runCommand(llvm::function_ref<Result<int>(std::unique_ptr<Source> &source)> command);

/// Returns BadInput if this process is one of several ranks of another launcher, each of which
/// would execute the whole command. Ignores incomplete variables and those of a single rank, which
/// containers may set. The message begins with `expected`; `advice` names an alternative to
/// unsetting the variables.
Status checkIsAlone(llvm::StringRef expected, llvm::StringRef advice = "");

/// Returns BadInput "expected --flag to be one of a, b, c, got 'x' (did you mean 'a'?)".
Status badChoice(llvm::StringRef flag, llvm::StringRef value,
                 const std::vector<std::string> &choices);

/// Returns the backend with that name. Returns BadInput if it is not one of the choices, and
/// Unsupported if the registry lacks it.
Result<Backend> findBackend(const BackendRegistry &registry, const std::string &name,
                            const std::vector<std::string> &choices);

/// Returns BadInput if the output of `flag` would overwrite `input`. Must be called before any
/// work. Empty names mean no file.
Status expectOtherFile(llvm::StringRef flag, const std::string &output, const std::string &input);

/// Returns the folder for temporary files: $TMPDIR, or /tmp.
std::string temporaryFolder();

} // namespace braid::tools
