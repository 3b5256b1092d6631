//===- api/launch/ask_in_process.cpp - asks whoever may never answer --------------------------===//

#include "api/launch/ask_in_process.h"

#include "api/launch/children.h"
#include "ir/failure.h"
#include "runtime/files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Who is killed and does not end within this waits inside the kernel.
constexpr milliseconds kToEnd{200};
/// More is no answer.
constexpr size_t kMostBytes = size_t(16) << 20;
constexpr int kThrew = 70;

int millisecondsUntil(Clock::time_point end) {
  const auto left = std::chrono::ceil<milliseconds>(end - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
}

/// A copy that never ends must hold nothing that somebody waits for the end of: pipes, sockets.
void closeAllBut(int writer) {
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (nowhere >= 0 && standard != writer)
      dup2(nowhere, standard);
  const auto number = static_cast<unsigned>(writer);
  if (number > STDERR_FILENO + 1)
    syscall(SYS_close_range, STDERR_FILENO + 1, number - 1, 0);
  syscall(SYS_close_range, std::max<unsigned>(number, STDERR_FILENO) + 1, ~0U, 0);
}

/// What libraries print is nobody's business, and what they register for the end of a process does
/// not happen in a copy.
[[noreturn]] void answer(llvm::function_ref<std::string()> ask, int writer, pid_t parent) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP})
    std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // The parent may have died before this; then nobody is left who would send the signal.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
    _exit(kThrew);
  closeAllBut(writer);
  try {
    _exit(writeAll(writer, ask()) == 0 ? 0 : kThrew);
  } catch (...) {
    _exit(kThrew);
  }
}

/// Until the writer has closed its end. False: it did not in time.
bool readUntil(Clock::time_point end, int reader, std::string &text) {
  std::array<char, 4096> bytes;
  while (text.size() <= kMostBytes) {
    pollfd watched = {reader, POLLIN, 0};
    const int ready = poll(&watched, 1, millisecondsUntil(end));
    if (ready < 0 && errno == EINTR)
      continue;
    if (ready <= 0)
      return false;
    const ssize_t count = read(reader, bytes.data(), bytes.size());
    if (count > 0)
      text.append(bytes.data(), static_cast<size_t>(count));
    else if (count == 0 || errno != EINTR)
      return count == 0;
  }
  return true;
}

/// Reaps the child. Nothing if it does not end within the time.
std::optional<Ending> endingOf(pid_t child, milliseconds patience) {
  const Clock::time_point end = Clock::now() + patience;
  for (;;) {
    siginfo_t info = {};
    const int code = waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG);
    if (code != 0 && errno != EINTR)
      return Ending{false, 127}; // somebody else has reaped it
    if (info.si_pid != 0)
      return Ending{info.si_code != CLD_EXITED, info.si_status};
    if (Clock::now() >= end)
      return std::nullopt; // whoever reaps what is left when this process ends
    poll(nullptr, 0, 1);
  }
}

} // namespace

Result<std::string> askInProcess(llvm::function_ref<std::string()> ask, milliseconds patience) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return cannotStart(errno);
  FileDescriptor reader(ends[0]), writer(ends[1]);
  const Clock::time_point end = Clock::now() + patience;
  const pid_t parent = getpid();
  // Not _Fork(): the copy allocates, and its allocator has to be in order.
  const pid_t child = fork();
  if (child == 0)
    answer(ask, writer.get(), parent);
  if (child < 0)
    return cannotStart(errno);
  writer.reset();
  std::string text;
  const bool isComplete = readUntil(end, reader.get(), text);
  if (!isComplete)
    kill(child, SIGKILL);
  const std::optional<Ending> ending = endingOf(child, kToEnd);
  if (!isComplete)
    return timedOut("no answer within {} ms", patience.count());
  if (ending != Ending{false, 0})
    return peerFailed("the process that asked {}",
                      ending ? "was " + str(*ending) : "closed its pipe and went on");
  return text;
}

} // namespace braid
