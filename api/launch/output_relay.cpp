//===- api/launch/output_relay.cpp - forwards the output of several processes line by line ----===//

#include "api/launch/output_relay.h"
#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/job/bootstrap/start_thread.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <unistd.h>

namespace braid {

Result<FileDescriptor> OutputRelay::add(int64_t number, int target) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return unsupported("cannot create a pipe for the output of rank {}: {}", number,
                       std::strerror(errno));
  FileDescriptor writer(ends[1]);
  auto body = [this, prefix = fmt::format("[{}] ", number), source = ends[0], target] {
    relay(prefix, source, target);
  };
  const Status status = startThread(threads_.emplace_back(), "the output of the ranks", body);
  if (status.isOk())
    return writer;
  threads_.pop_back();
  close(ends[0]);
  return status;
}

Status OutputRelay::finish() {
  for (std::thread &thread : threads_)
    thread.join();
  threads_.clear();
  return error_ == 0
             ? Status::ok()
             : unsupported("cannot write the output of the ranks: {}", std::strerror(error_));
}

/// Forwards lines until the pipe is closed. Splits lines that are longer than the buffer.
void OutputRelay::relay(const std::string &prefix, int source, int target) {
  blockSignals();
  const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(fdopen(source, "r"), std::fclose);
  char line[1 << 16];
  while (file && std::fgets(line, sizeof line, file.get())) {
    const bool isWhole = std::strchr(line, '\n') != nullptr;
    std::lock_guard lock(mutex_);
    const int error = writeAll(target, prefix + line + (isWhole ? "" : "\n"));
    if (error_ == 0 && error != EPIPE) // EPIPE: the reader has closed the stream
      error_ = error;
  }
}

} // namespace braid
