//===- api/launch/children.h - the processes of a job -----------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/socket.h"

#include <mutex>
#include <optional>
#include <vector>

namespace braid {

/// The end of a process.
struct Ending {
  bool isSignal = false;
  int number = 0;   ///< the signal, or the exit status
  int notBegun = 0; ///< the errno of a failed exec, or 0
  bool operator==(const Ending &) const = default;
};
/// Returns a text such as "killed by signal 9 (Killed)", "ended with exit status 3" or "could not
/// begin (Argument list too long)".
std::string str(const Ending &ending);

/// Returns true if the process has ended or is exiting. A process is exiting before the kernel
/// closes its descriptors.
bool isEnding(pid_t pid);

/// Returns the Unsupported status of a process that could not be created because of errno `error`.
Status cannotStart(int error);

/// Arguments, environment and standard streams of another copy of this program.
struct ChildOptions {
  std::vector<std::string> arguments; ///< including argv[0]
  /// Variables added to the environment of this process. They replace variables of the same name.
  std::vector<std::pair<std::string, std::string>> environment;
  int standardInput = -1;                      ///< a file descriptor; -1 if inherited
  int standardOutput = -1, standardError = -1; ///< file descriptors; -1 if inherited
};

/// Child processes of this process, each of which is reaped exactly once. Every access goes through
/// a pidfd, so that it cannot reach another process that reuses the pid. All functions except
/// start() are thread-safe. The destructor kills and reaps the remaining children.
class Children {
public:
  explicit Children(int64_t count) : children_(static_cast<size_t>(count)) {}
  ~Children();
  Children(const Children &) = delete;

  /// Starts this program again as child number `index`. The child is killed when the calling thread
  /// ends. Does not wait for exec: if exec fails, the child ends, and its Ending holds the errno.
  /// Returns Unsupported if no process can be created.
  Status start(int64_t index, const ChildOptions &options);

  /// Returns the pidfds of the running children. A pidfd is readable once its child has ended.
  std::vector<int> aliveHandles() const;
  bool anyAlive() const { return !aliveHandles().empty(); }
  /// Returns how the child ended, or nullopt if it has not been reaped yet.
  std::optional<Ending> ending(int64_t index) const;

  /// Reaps all children that have ended. If `mayBlock`, waits until all have ended.
  void reapAll(bool mayBlock);
  /// Blocks until the child has ended or `patience` has elapsed. Reaps it if it has ended.
  std::optional<Ending> waitFor(int64_t index, std::chrono::milliseconds patience);

  /// Calls isEnding(pid_t) for the child. Returns true if the child was reaped or never started.
  bool isEnding(int64_t index) const;
  /// Returns true if a signal such as SIGSTOP has stopped the child.
  bool isStopped(int64_t index) const;

  /// Sends `signal` to the child. Does nothing if the child has ended.
  void kill(int64_t index, int signal);
  void killAll(int signal);

private:
  struct Child {
    pid_t pid = 0; ///< 0 if not started
    FileDescriptor handle;
    FileDescriptor failure; ///< a pipe that holds the errno if exec failed
    std::optional<Ending> ending;
    bool isAlive() const { return pid != 0 && !ending; }
  };
  static void reap(Child &child, bool mayBlock);

  mutable std::mutex mutex_;
  std::vector<Child> children_;
};

} // namespace braid
