//===- api/launch/children.cpp - the processes of a job ---------------------------------------===//

#include "api/launch/children.h"

#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace braid {

std::string str(const Ending &ending) {
  if (ending.notBegun() != 0)
    return fmt::format("could not start ({})", std::strerror(ending.notBegun()));
  if (ending.isSignal)
    return fmt::format("killed by signal {} ({})", ending.number, strsignal(ending.number));
  return fmt::format("exited with status {}", ending.number);
}

bool isEnding(pid_t pid) {
  auto text = llvm::MemoryBuffer::getFileAsStream(fmt::format("/proc/{}/stat", pid));
  if (!text)
    return true;
  // The command name is in parentheses, and may itself contain spaces and parentheses. The flags
  // are the seventh field after it; see proc(5).
  llvm::SmallVector<llvm::StringRef> fields;
  (*text)->getBuffer().rsplit(')').second.split(fields, ' ');
  constexpr unsigned kExiting = 4; // PF_EXITING
  unsigned flags = kExiting;
  return fields.size() < 8 || fields[7].getAsInteger(10, flags) || (flags & kExiting) != 0;
}

Status cannotStart(int error) {
  return unsupported("cannot start another process: {}", std::strerror(error));
}

namespace {

/// Returns a null-terminated array of pointers into `texts`, for use as argv or environ.
std::vector<char *> pointersTo(std::vector<std::string> &texts) {
  std::vector<char *> pointers;
  for (std::string &text : texts)
    pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Returns the command line of this process.
std::vector<std::string> ownArguments() {
  std::vector<std::string> arguments;
  if (auto text = llvm::MemoryBuffer::getFileAsStream("/proc/self/cmdline"))
    for (llvm::StringRef rest = (*text)->getBuffer(); !rest.empty(); rest = rest.split('\0').second)
      arguments.push_back(rest.split('\0').first.str());
  return arguments;
}

std::vector<std::string>
environmentWith(const std::vector<std::pair<std::string, std::string>> &added) {
  std::vector<std::string> texts;
  for (char **entry = environ; *entry; ++entry) {
    llvm::StringRef name = llvm::StringRef(*entry).split('=').first;
    if (llvm::none_of(added, [&](const auto &variable) { return name == variable.first; }))
      texts.push_back(*entry);
  }
  for (const auto &[name, value] : added)
    texts.push_back(name + "=" + value);
  return texts;
}

/// The code that the child executes between fork and exec. This code makes only system calls,
/// because other threads of the parent may have held locks during the fork.
struct ChildSide {
  char *const *arguments;
  char *const *environment;
  int standard[3]; ///< replacements for descriptors 0, 1 and 2; -1: unchanged
  pid_t parent;
  sigset_t mask;

  [[noreturn]] void run() const {
    // If the parent died before prctl(), the kernel does not send SIGKILL; getppid() detects this.
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent && redirect()) {
      resetSignals();
      execve("/proc/self/exe", arguments, environment);
    }
    _exit(Ending::kNotBegun + errno);
  }

private:
  bool redirect() const {
    for (int target = 0; target < 3; ++target) {
      if (standard[target] < 0)
        continue;
      // dup2() of a descriptor onto itself would not clear its close-on-exec flag.
      if (standard[target] == target ? fcntl(target, F_SETFD, 0) != 0
                                     : dup2(standard[target], target) < 0)
        return false;
    }
    return true;
  }
  void resetSignals() const {
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGALRM}) {
      struct sigaction action;
      sigaction(signal, nullptr, &action);
      if (action.sa_handler == SIG_IGN)
        continue; // stays ignored, as in the parent
      action.sa_handler = SIG_DFL;
      sigaction(signal, &action, nullptr);
    }
    sigprocmask(SIG_SETMASK, &mask, nullptr);
  }
};

} // namespace

Children::~Children() {
  killAll(SIGKILL);
  for (const std::atomic<pid_t> &pid : pids_)
    while (pid != 0 && waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
}

Status Children::start(int64_t index, const ChildOptions &options) {
  // While SIGCHLD is ignored, the kernel does not report how children end.
  struct sigaction onEnd;
  if (sigaction(SIGCHLD, nullptr, &onEnd) == 0 && onEnd.sa_handler == SIG_IGN)
    std::signal(SIGCHLD, SIG_DFL);
  std::vector<std::string> arguments =
      options.arguments.empty() ? ownArguments() : options.arguments;
  std::vector<std::string> environment = environmentWith(options.environment);
  const std::vector<char *> argv = pointersTo(arguments), envp = pointersTo(environment);
  ChildSide side{argv.data(),
                 envp.data(),
                 {options.standardInput, options.standardOutput, options.standardError},
                 getpid(),
                 {}};
  // Block all signals, so that the child does not run this process's signal handlers.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &side.mask);
  // fork() would first run the atfork handlers of libraries, which may wait for library threads.
  const pid_t pid = _Fork();
  const int error = errno;
  if (pid == 0)
    side.run();
  pthread_sigmask(SIG_SETMASK, &side.mask, nullptr);
  if (pid < 0)
    return cannotStart(error);
  pids_[static_cast<size_t>(index)] = pid;
  return Status::ok();
}

std::optional<Ending> Children::ending(int64_t index) const {
  if (pidOf(index) == 0)
    return std::nullopt;
  siginfo_t info = {};
  while (waitid(P_PID, static_cast<id_t>(pidOf(index)), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
    if (errno != EINTR)
      return Ending{false, 127}; // other code has already reaped the child
  if (info.si_pid == 0)
    return std::nullopt;
  return Ending{info.si_code != CLD_EXITED, info.si_status};
}

bool Children::isAnyAlive() const {
  for (size_t index = 0; index < pids_.size(); ++index)
    if (pids_[index] != 0 && !ending(static_cast<int64_t>(index)))
      return true;
  return false;
}

bool Children::isEnding(int64_t index) const {
  return pidOf(index) == 0 || braid::isEnding(pidOf(index));
}

bool Children::isStopped(int64_t index) const {
  siginfo_t info = {};
  return pidOf(index) != 0 &&
         waitid(P_PID, static_cast<id_t>(pidOf(index)), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid != 0;
}

void Children::kill(int64_t index, int signal) {
  if (pidOf(index) != 0)
    ::kill(pidOf(index), signal);
}

void Children::killAll(int signal) {
  for (size_t index = 0; index < pids_.size(); ++index)
    kill(static_cast<int64_t>(index), signal);
}

} // namespace braid
