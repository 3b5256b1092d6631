//===- tools/process.cpp - a process's streams, memory and exit code --------------------------===//

#include "tools/process.h"

#include "api/status.h"

#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace braid::tools {
namespace {

constexpr const char *kOutOfMemory = "out of memory: the limit of this process, its cgroup or the "
                                     "machine has been reached (ulimit -v)";

/// Prints an error. Uses only system calls, because memory may be exhausted.
void say(const char *what) {
  for (const char *part : {"braid: error: ", what, "\n"})
    (void)!write(STDERR_FILENO, part, std::strlen(part));
}

/// Prints the exception that is being handled, and returns its status code.
StatusCode explainException() {
  try {
    throw;
  } catch (const std::bad_alloc &) {
    say(kOutOfMemory);
  } catch (const std::system_error &error) {
    if (error.code() != std::errc::resource_unavailable_try_again) {
      say(error.what());
      return StatusCode::Internal;
    }
    say("cannot start a thread: the limit on memory or processes has been reached (ulimit -v, "
        "ulimit -u)");
  } catch (const std::exception &error) {
    say(error.what());
    return StatusCode::Internal;
  } catch (...) {
    say("unknown exception");
    return StatusCode::Internal;
  }
  return StatusCode::Unsupported;
}

/// True after a failed allocation, which may be the cause of later failures.
std::atomic<bool> wasShort{false};

[[noreturn]] void throwBadAlloc() {
  wasShort.store(true);
  throw std::bad_alloc();
}

/// The terminate handler, for uncaught exceptions and unjoined threads.
[[noreturn]] void endProcess() {
  StatusCode code = wasShort.load() ? StatusCode::Unsupported : StatusCode::Internal;
  if (std::current_exception())
    code = explainException();
  else
    say(wasShort.load() ? kOutOfMemory : "a thread was not joined");
  _exit(static_cast<int>(code));
}

/// Flushes `os`, and returns the write error, if any.
std::error_code flushed(llvm::raw_fd_ostream &os) {
  os.flush();
  std::error_code error = os.error();
  os.clear_error(); // prevents LLVM from aborting at exit
  return error;
}

int codeOfOutput(int code) {
  const std::error_code error = flushed(llvm::outs());
  if (!error || error == std::errc::broken_pipe)
    return code;
  say(("cannot write to standard output: " + error.message()).c_str());
  return code == 0 ? static_cast<int>(StatusCode::Unsupported) : code;
}

} // namespace

void prepareProcess() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  // Opens any closed standard descriptors read-only, so that writing to them fails.
  while (true) {
    const int number = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (number < 0 || number > STDERR_FILENO) {
      close(number);
      break;
    }
  }
  std::set_terminate(endProcess);
  std::set_new_handler(throwBadAlloc);
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { throwBadAlloc(); });
}

int exitCodeOf(const std::function<int()> &command) {
  int code = 0;
  try {
    code = command();
  } catch (...) {
    code = static_cast<int>(explainException());
  }
  code = codeOfOutput(code);
  (void)flushed(llvm::errs());
  return code;
}

} // namespace braid::tools
