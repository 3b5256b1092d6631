//===- api/launch/signals.cpp - signals that ask a launcher to end ----------------------------===//

#include "api/launch/signals.h"

#include <atomic>
#include <cerrno>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

namespace braid {
namespace {

// A handler touches only these variables.
std::atomic<int> pipeEnd{-1};
std::atomic<uint64_t> received{0}; ///< one bit for each signal
std::atomic<int> firstSignal{0};   ///< the first one received

/// Exits because the process still runs long after a signal, so something hangs. Ignores an alarm
/// that other code has set, when no signal is recorded.
void endAtOnce(int) {
  if (const int signal = firstSignal.load())
    _exit(128 + signal);
}

void note(int signal) {
  int saved = errno;
  received.fetch_or(uint64_t(1) << signal);
  int none = 0;
  if (firstSignal.compare_exchange_strong(none, signal))
    alarm(SignalWatch::kLastResortSeconds);
  char byte = static_cast<char>(signal);
  // If the pipe is full, it already holds enough signals.
  [[maybe_unused]] ssize_t ignored = write(pipeEnd.load(), &byte, 1);
  errno = saved;
}

} // namespace

SignalWatch::SignalWatch() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) {
    events_ = FileDescriptor(ends[0]);
    sender_ = FileDescriptor(ends[1]);
  }
  pipeEnd.store(sender_.get());
  received.store(0);
  struct sigaction last = {};
  last.sa_handler = endAtOnce;
  sigaction(SIGALRM, &last, &alarmBefore_);
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler == SIG_IGN)
      continue;
    struct sigaction action = {};
    action.sa_handler = note;
    sigaction(kSignals[i], &action, nullptr);
    isWatched_[i] = true;
  }
}

SignalWatch::~SignalWatch() {
  for (size_t i = 0; i < std::size(kSignals); ++i)
    if (isWatched_[i])
      sigaction(kSignals[i], &before_[i], nullptr);
  pipeEnd.store(-1);
  alarm(0);
  firstSignal.store(0);
  sigaction(SIGALRM, &alarmBefore_, nullptr);
}

int SignalWatch::take() {
  char byte = 0;
  if (read(events_.get(), &byte, 1) != 1)
    return 0;
  ++taken_;
  return byte;
}

bool SignalWatch::hasReceived(int signal, std::chrono::milliseconds patience) const {
  if (signal < 1 || signal > 63)
    return false;
  Deadline deadline = deadlineIn(patience);
  do {
    if (received.load() >> signal & 1)
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

} // namespace braid
