//===- runtime/job/bootstrap/start_thread.cpp - starts threads and reports failures -----------===//

#include "runtime/job/bootstrap/start_thread.h"

#include "ir/failure.h"

#include "llvm/Support/Errno.h"

#include <csignal>
#include <system_error>

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

namespace braid {
namespace {

std::string likelyCause() {
  rlimit memory = {};
  if (getrlimit(RLIMIT_AS, &memory) == 0 && memory.rlim_cur != RLIM_INFINITY)
    return "out of memory: this process is limited to " + std::to_string(memory.rlim_cur >> 20) +
           " MiB (ulimit -v)";
  return "too many processes or too little memory (ulimit -u, ulimit -v, cgroup)";
}

} // namespace

Status startThread(std::thread &thread, const char *purpose, std::function<void()> body) {
  try {
    thread = std::thread(std::move(body));
  } catch (const std::system_error &error) {
    return unsupported("cannot start a thread for {} ({}): {}", purpose, error.code().message(),
                       likelyCause());
  }
  return Status::ok();
}

Status ServiceThread::start(const char *purpose, std::function<void()> body) {
  end_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!end_.isValid())
    return unsupported("cannot create an eventfd: {}", llvm::sys::StrError(errno));
  return startThread(thread_, purpose, [body = std::move(body)] {
    blockSignals();
    body();
  });
}

void ServiceThread::stop() {
  const uint64_t one = 1;
  (void)!write(end_.get(), &one, sizeof one);
  if (thread_.joinable())
    thread_.join();
}

void blockSignals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

} // namespace braid
