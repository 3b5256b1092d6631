//===- api/launch/children.cpp - the processes of a job ---------------------------------------===//

#include "api/launch/children.h"

#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <sstream>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace braid {

std::string str(const Ending &ending) {
  if (ending.notBegun != 0)
    return fmt::format("could not start ({})", std::strerror(ending.notBegun));
  if (ending.isSignal)
    return fmt::format("killed by signal {} ({})", ending.number, strsignal(ending.number));
  return fmt::format("ended with exit status {}", ending.number);
}

/// Returns the fields after the name in /proc/PID/stat, as described in proc(5), or nothing if
/// there is no such process.
static std::vector<std::string> processStatus(int64_t pid) {
  auto text = llvm::MemoryBuffer::getFileAsStream(fmt::format("/proc/{}/stat", pid));
  if (!text)
    return {};
  // The second field is the command in parentheses, which may contain blanks and parentheses.
  std::istringstream rest((*text)->getBuffer().rsplit(')').second.str());
  return {std::istream_iterator<std::string>(rest), {}};
}

bool isEnding(pid_t pid) {
  const std::vector<std::string> fields = processStatus(pid);
  constexpr unsigned kExiting = 4; // PF_EXITING
  unsigned flags = kExiting;
  return fields.size() < 7 || llvm::StringRef(fields[6]).getAsInteger(10, flags) ||
         (flags & kExiting) != 0;
}

Status cannotStart(int error) {
  return unsupported("cannot start another process: {}", std::strerror(error));
}

namespace {

/// The strings of an argv or environ, and the array of pointers to them.
class Texts {
public:
  explicit Texts(std::vector<std::string> texts) : texts_(std::move(texts)) {
    for (std::string &text : texts_)
      pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }
  char *const *get() const { return pointers_.data(); }

private:
  std::vector<std::string> texts_;
  std::vector<char *> pointers_;
};

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

/// The child between fork and exec. It makes only system calls, because another thread of the
/// parent may have held any lock during the fork.
struct ChildSide {
  char *const *arguments;
  char *const *environment;
  int standard[3]; ///< descriptors for 0, 1 and 2; -1 if unchanged
  pid_t parent;
  sigset_t mask;
  int failure; ///< the pipe that receives the errno if exec fails

  [[noreturn]] void run() const {
    // If the parent died before this call, the kernel will not send the signal.
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent && redirect()) {
      resetSignals();
      execve("/proc/self/exe", arguments, environment);
    }
    int error = errno;
    [[maybe_unused]] ssize_t ignored = write(failure, &error, sizeof error);
    _exit(127);
  }

private:
  bool redirect() const {
    for (int target = 0; target < 3; ++target) {
      if (standard[target] < 0)
        continue;
      // dup2 of a descriptor onto itself would not clear its close-on-exec flag.
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

/// Returns the errno of a failed exec, or 0 if exec succeeded. The child must have ended.
int errorOf(const FileDescriptor &failure) {
  int error = 0;
  return read(failure.get(), &error, sizeof error) == static_cast<ssize_t>(sizeof error) ? error
                                                                                         : 0;
}

} // namespace

Children::~Children() {
  killAll(SIGKILL);
  reapAll(/*mayBlock=*/true);
}

Status Children::start(int64_t index, const ChildOptions &options) {
  // The kernel does not report the end of a child to a process that ignores SIGCHLD.
  struct sigaction onEnd;
  if (sigaction(SIGCHLD, nullptr, &onEnd) == 0 && onEnd.sa_handler == SIG_IGN)
    std::signal(SIGCHLD, SIG_DFL);
  Texts arguments(options.arguments), environment(environmentWith(options.environment));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    return cannotStart(errno);
  FileDescriptor reader(ends[0]), writer(ends[1]);
  ChildSide side{arguments.get(),
                 environment.get(),
                 {options.standardInput, options.standardOutput, options.standardError},
                 getpid(),
                 {},
                 writer.get()};
  // The child must not run this process's signal handlers.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &side.mask);
  // fork() would first call handlers of libraries, which may wait for the libraries' threads.
  pid_t pid = _Fork();
  int error = errno;
  if (pid == 0)
    side.run();
  pthread_sigmask(SIG_SETMASK, &side.mask, nullptr);
  if (pid < 0)
    return cannotStart(error);
  writer.reset();

  std::lock_guard lock(mutex_);
  Child &child = children_[static_cast<size_t>(index)];
  child.pid = pid;
  child.failure = std::move(reader);
  // Nobody else can have the pid until the child is reaped.
  child.handle = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (child.handle.isValid())
    return Status::ok();
  error = errno;
  ::kill(pid, SIGKILL);
  reap(child, /*mayBlock=*/true);
  return cannotStart(error);
}

std::vector<int> Children::aliveHandles() const {
  std::lock_guard lock(mutex_);
  std::vector<int> handles;
  for (const Child &child : children_)
    if (child.isAlive())
      handles.push_back(child.handle.get());
  return handles;
}

std::optional<Ending> Children::ending(int64_t index) const {
  std::lock_guard lock(mutex_);
  return children_[static_cast<size_t>(index)].ending;
}

/// The caller must hold the lock, so that a child is not reaped twice.
void Children::reap(Child &child, bool mayBlock) {
  if (!child.isAlive())
    return;
  siginfo_t info = {};
  int flags = WEXITED | (mayBlock ? 0 : WNOHANG);
  while (waitid(P_PID, static_cast<id_t>(child.pid), &info, flags) != 0)
    if (errno != EINTR) {
      child.ending = Ending{false, 127}; // another caller of wait() reaped it
      return;
    }
  if (info.si_pid == 0)
    return;
  child.ending = Ending{info.si_code != CLD_EXITED, info.si_status, errorOf(child.failure)};
  child.failure.reset();
}

void Children::reapAll(bool mayBlock) {
  std::lock_guard lock(mutex_);
  for (Child &child : children_)
    reap(child, mayBlock);
}

std::optional<Ending> Children::waitFor(int64_t index, std::chrono::milliseconds patience) {
  int handle = -1;
  {
    std::lock_guard lock(mutex_);
    const Child &child = children_[static_cast<size_t>(index)];
    if (!child.isAlive())
      return child.ending;
    handle = child.handle.get(); // the descriptor stays open as long as this object
  }
  pollfd watched = {handle, POLLIN, 0};
  poll(&watched, 1, static_cast<int>(patience.count()));
  std::lock_guard lock(mutex_);
  Child &child = children_[static_cast<size_t>(index)];
  reap(child, /*mayBlock=*/false);
  return child.ending;
}

bool Children::isEnding(int64_t index) const {
  std::lock_guard lock(mutex_);
  const Child &child = children_[static_cast<size_t>(index)];
  return !child.isAlive() || braid::isEnding(child.pid);
}

bool Children::isStopped(int64_t index) const {
  std::lock_guard lock(mutex_);
  const Child &child = children_[static_cast<size_t>(index)];
  siginfo_t info = {};
  return child.isAlive() &&
         waitid(P_PID, static_cast<id_t>(child.pid), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid != 0;
}

void Children::kill(int64_t index, int signal) {
  std::lock_guard lock(mutex_);
  const Child &child = children_[static_cast<size_t>(index)];
  if (child.isAlive())
    syscall(SYS_pidfd_send_signal, child.handle.get(), signal, nullptr, 0);
}

void Children::killAll(int signal) {
  for (int64_t index = 0; index < static_cast<int64_t>(children_.size()); ++index)
    kill(index, signal);
}

} // namespace braid
