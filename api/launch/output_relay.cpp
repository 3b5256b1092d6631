//===- api/launch/output_relay.cpp - forwards the output of several processes line by line ----===//

#include "api/launch/output_relay.h"
#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/job/bootstrap/start_thread.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace braid {
namespace {

/// Longer lines are split.
constexpr size_t kLongestLine = 1 << 16;

} // namespace

Result<OutputRelay::Pipes> OutputRelay::add(int64_t number) {
  Pipes pipes;
  for (auto [end, target] : {std::pair{&pipes.output, 1}, std::pair{&pipes.error, 2}}) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      return unsupported("cannot create a pipe for the output of rank {}: {}", number,
                         std::strerror(errno));
    sources_.push_back({fmt::format("[{}] ", number), FileDescriptor(ends[0]), target, {}});
    *end = FileDescriptor(ends[1]);
  }
  return pipes;
}

Status OutputRelay::start() {
  return sources_.empty() ? Status::ok()
                          : startThread(thread_, "what ranks write", [this] { relay(); });
}

Status OutputRelay::finish() {
  if (thread_.joinable())
    thread_.join();
  return error_ == 0
             ? Status::ok()
             : unsupported("cannot write the output of the ranks: {}", std::strerror(error_));
}

void OutputRelay::relay() {
  for (size_t open = sources_.size(); open > 0;) {
    std::vector<pollfd> watched;
    for (const Source &source : sources_)
      watched.push_back({source.pipe.get(), POLLIN, 0}); // poll() ignores the -1 of closed pipes
    if (poll(watched.data(), watched.size(), -1) < 0)
      continue;
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (watched[i].revents == 0)
        continue;
      bool goesOn = readSome(sources_[i]);
      passOn(sources_[i], !goesOn);
      if (!goesOn) {
        sources_[i].pipe.reset();
        --open;
      }
    }
  }
}

/// Returns false at the end of the stream.
bool OutputRelay::readSome(Source &source) {
  char bytes[4096];
  ssize_t count = read(source.pipe.get(), bytes, sizeof bytes);
  if (count < 0)
    return errno == EINTR;
  source.pending.append(bytes, static_cast<size_t>(count));
  return count > 0;
}

/// Writes the complete lines, and at the end of the stream the rest.
void OutputRelay::passOn(Source &source, bool isEnd) {
  std::string text;
  for (;;) {
    size_t length = source.pending.find('\n');
    if (length == std::string::npos && source.pending.size() < kLongestLine)
      break;
    length = std::min(length, kLongestLine);
    text += source.prefix + source.pending.substr(0, length) + "\n";
    source.pending.erase(0, length + (source.pending[length] == '\n' ? 1 : 0));
  }
  if (isEnd && !source.pending.empty())
    text += source.prefix + std::exchange(source.pending, {}) + "\n";
  const int error = writeAll(source.target, text);
  if (error_ == 0 && error != EPIPE) // EPIPE: the reader has closed the stream
    error_ = error;
}

} // namespace braid
