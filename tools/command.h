//===- tools/command.h - what every subcommand of `braid` has ---------------------------------===//
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

/// A subcommand: its flags are registered in `app`, and `run` acts on them and gives the exit code.
struct Command {
  CLI::App *app;
  std::function<int()> run;
};

Command addCheck(CLI::App &app);
Command addCompile(CLI::App &app);
Command addExplain(CLI::App &app);
Command addRun(CLI::App &app);
Command addBench(CLI::App &app);
Command addEnv(CLI::App &app);
Command addDoctor(CLI::App &app);
Command addP2p(CLI::App &app);
Command addCalibrate(CLI::App &app);
Command addSimulate(CLI::App &app);
Command addView(CLI::App &app);

/// The flags that say what to compile, common to the commands that take a FILE.
struct SourceFlags {
  std::string command; ///< "braid run"
  std::string file;
  std::optional<std::string> entry;
  std::optional<int64_t> ranks;
  std::vector<std::string> set;
  std::optional<std::string> schedule;
  std::array<std::optional<std::string>, kKnobCount> knobs; ///< the values of --KNOB
  bool reproducible = false;

  bool isRun = false;    ///< knobs of the run have flags, and --schedule may be auto,
  bool takesAuto = true; ///< unless this is false
  std::string defaultSchedule = "pairwise"; ///< for help

  /// FILE may be missing if `isFileOptional`.
  void addTo(CLI::App &app, bool isFileOptional = false);
  /// "--ranks": a flag that is given of those that say what to do with FILE; empty: none.
  std::string firstGiven() const;
  /// Reads the values into `options`; BadInput names the flag, what was expected and what came.
  Status toOptions(CompileOptions &options) const;
};

/// --reproducible, for every command that has it.
void addReproducible(CLI::App &app, bool &isReproducible);

/// A failure as it is printed: as it is if it is located in `file`, else as "braid: error: ...".
/// Ends with a line break.
std::string messageOf(const Status &status, const std::string &file = "");
/// Prints a failure: the source's located messages if there are any, else "braid: error: ...".
/// Returns the exit code.
int report(const Status &status, const Source *source = nullptr);

/// For a command that launches ranks: prints why its job fails, and how ranks ended otherwise than
/// the job did. `success` is what holds all the same if the job succeeded: "the run was complete".
void sayCause(const Status &cause);
void sayEndings(const LaunchReport &report, const std::string &success);

/// Runs a command that gives its exit code, or fails; `source` takes what it reads, where messages
/// may be located. Prints a failure. Returns the exit code.
int runCommand(llvm::function_ref<Result<int>(std::unique_ptr<Source> &source)> command);

/// For a command that starts its own ranks: BadInput if this process is one of several ranks of
/// another launcher, each of which would do everything. Incomplete variables and those of a single
/// rank do not matter: containers have them. The message begins with `expected`; `advice` says what
/// else to do than to unset variables.
Status checkIsAlone(llvm::StringRef expected, llvm::StringRef advice = "");

/// BadInput "expected --flag to be one of a, b, c, got 'x' (did you mean 'a'?)".
Status badChoice(llvm::StringRef flag, llvm::StringRef value,
                 const std::vector<std::string> &choices);

/// The backend that --backend names. BadInput if it is none of the choices; Unsupported if the
/// registry lacks it.
Result<Backend> findBackend(const BackendRegistry &registry, const std::string &name,
                            const std::vector<std::string> &choices);

/// BadInput if what `flag` writes would take the place of `input`, which is read. To be called
/// before any work; empty names are of no file.
Status expectOtherFile(llvm::StringRef flag, const std::string &output, const std::string &input);

/// The folder for files that are not kept: $TMPDIR, or /tmp.
std::string temporaryFolder();

} // namespace braid::tools
