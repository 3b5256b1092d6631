//===- api/launch/children.h - the processes of a job -----------------------------------------===//
#pragma once

#include "api/status.h"

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace braid {

/// The exit status or fatal signal of a process.
struct Ending {
  bool isSignal = false;
  int number = 0; ///< the signal, or the exit status
  /// Returns the errno of exec if it failed in the child, otherwise 0. After a failed exec, the
  /// child exits with status kNotBegun + errno, which no rank uses as an exit status.
  int notBegun() const { return isSignal || number <= kNotBegun ? 0 : number - kNotBegun; }
  bool operator==(const Ending &) const = default;
  static constexpr int kNotBegun = 128;
};
/// Returns text such as "killed by signal 9 (Killed)", "ended with exit status 3" or "could not
/// start (Argument list too long)".
std::string str(const Ending &ending);

/// Returns true if the process has ended or is exiting. The kernel marks a process as exiting
/// before closing its descriptors.
bool isEnding(pid_t pid);

/// Returns Unsupported, stating that a process could not be created because of errno `error`.
Status cannotStart(int error);

/// Arguments, environment and standard streams for a new process that executes this program.
struct ChildOptions {
  std::vector<std::string> arguments; ///< including argv[0]; empty: this process's arguments
  /// Variables to add to this process's environment, replacing variables of the same name.
  std::vector<std::pair<std::string, std::string>> environment;
  int standardInput = -1;                      ///< a file descriptor; -1 if inherited
  int standardOutput = -1, standardError = -1; ///< file descriptors; -1 if inherited
};

/// Child processes of this process. Only the destructor reaps the children, after killing those
/// still running, so the kernel cannot reuse a child's PID while this object exists. All functions
/// except start() are thread-safe.
class Children {
public:
  explicit Children(int64_t count) : pids_(static_cast<size_t>(count)) {}
  ~Children();
  Children(const Children &) = delete;

  /// Starts another copy of this program as child `index`. The kernel kills the child when the
  /// calling thread ends. Does not wait for exec: if exec fails, the child exits, and ending()
  /// returns the errno. Returns Unsupported if no process can be created.
  Status start(int64_t index, const ChildOptions &options);

  /// Returns how the child ended, or nullopt if it is still running or was never started.
  std::optional<Ending> ending(int64_t index) const;
  bool isAnyAlive() const;

  /// Like isEnding(pid_t), but for the child. Also returns true if the child was never started.
  bool isEnding(int64_t index) const;
  /// Returns true if a signal such as SIGSTOP has stopped the child.
  bool isStopped(int64_t index) const;

  /// Sends `signal` to the child. No-op if the child has ended.
  void kill(int64_t index, int signal);
  void killAll(int signal);

private:
  pid_t pidOf(int64_t index) const { return pids_[static_cast<size_t>(index)].load(); }

  std::vector<std::atomic<pid_t>> pids_; ///< 0 if not started
};

} // namespace braid
