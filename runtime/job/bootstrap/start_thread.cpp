//===- runtime/job/bootstrap/start_thread.cpp - starts threads and reports failures -----------===//

#include "runtime/job/bootstrap/start_thread.h"

#include "ir/failure.h"

#include <csignal>
#include <system_error>

#include <sys/resource.h>

namespace braid {
namespace {

std::string likelyCause() {
  rlimit memory = {};
  if (getrlimit(RLIMIT_AS, &memory) == 0 && memory.rlim_cur != RLIM_INFINITY)
    return "out of memory: this process may have " + std::to_string(memory.rlim_cur >> 20) +
           " MiB (ulimit -v)";
  return "too many processes or too little memory (ulimit -u, ulimit -v, cgroup)";
}

} // namespace

Status startThread(std::thread &thread, const char *purpose, std::function<void()> body) {
  try {
    thread = std::thread(std::move(body));
  } catch (const std::system_error &error) {
    return unsupported("expected one more thread for {}, got '{}': {}", purpose,
                       error.code().message(), likelyCause());
  }
  return Status::ok();
}

void blockSignals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

} // namespace braid
