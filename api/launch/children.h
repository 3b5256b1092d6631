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
  int notBegun = 0; ///< the errno for which the program was never executed, or 0
  bool operator==(const Ending &) const = default;
};
/// "killed by signal 9 (Killed)", "ended with exit status 3", "could not begin (Argument list too
/// long)".
std::string str(const Ending &ending);

/// Whether the process has ended, or has begun to: before it closes anything.
bool isEnding(pid_t pid);
/// Whether SIGSTOP or the like has stopped the process, so that it does nothing at all. A debugger
/// does not count.
bool isStopped(pid_t pid);

/// Unsupported: there is no further process, for this error.
Status cannotStart(int error);

/// Arguments, environment and streams of a further copy of this program.
struct ChildOptions {
  std::vector<std::string> arguments; ///< from argv[0] on
  /// Added to the environment of this process, in place of what has the same name.
  std::vector<std::pair<std::string, std::string>> environment;
  int standardInput = -1;                      ///< a descriptor
  int standardOutput = -1, standardError = -1; ///< -1: as in this process
};

/// Children of this process, each reaped exactly once. A process is only ever reached through a
/// descriptor that stands for it, so no other process of the same number is. Thread-safe, but for
/// start(). Whoever is left is killed and reaped by the destructor.
class Children {
public:
  explicit Children(int64_t count) : children_(static_cast<size_t>(count)) {}
  ~Children();
  Children(const Children &) = delete;

  /// Starts this program again, as child number `index`; it is killed when the calling thread ends.
  /// Does not wait until the program begins: where it cannot, the child ends, and its Ending says
  /// why. Unsupported if there can be no further process.
  Status start(int64_t index, const ChildOptions &options);

  /// Descriptors that are readable once their child has ended.
  std::vector<int> aliveHandles() const;
  bool anyAlive() const { return !aliveHandles().empty(); }
  /// Nothing while it has not been reaped.
  std::optional<Ending> ending(int64_t index) const;

  /// All that have ended; if it may block, until all have.
  void reapAll(bool mayBlock);
  /// Blocks until this one has ended, but not for longer than `patience`, and reaps it.
  std::optional<Ending> waitFor(int64_t index, std::chrono::milliseconds patience);

  /// As isEnding().
  bool isEnding(int64_t index) const;
  /// As isStopped().
  bool isStopped(int64_t index) const;

  /// Does nothing to those that have ended.
  void kill(int64_t index, int signal);
  void killAll(int signal);

private:
  struct Child {
    pid_t pid = 0; ///< 0: not started
    FileDescriptor handle;
    FileDescriptor failure; ///< has the errno if the program could not begin
    std::optional<Ending> ending;
    bool isAlive() const { return pid != 0 && !ending; }
  };
  static void reap(Child &child, bool mayBlock);

  mutable std::mutex mutex_;
  std::vector<Child> children_;
};

} // namespace braid
