//===- api/launch/signals.cpp - signals that ask a launcher to end ----------------------------===//

#include "api/launch/signals.h"

#include <atomic>
#include <iterator>
#include <thread>

#include <unistd.h>

namespace braid {
namespace {

// A handler touches only these variables.
std::atomic<uint64_t> received{0}; ///< one bit for each signal
std::atomic<int> firstSignal{0}, signalCount{0};

/// Exits because the process still runs long after a signal, so something hangs. Ignores an alarm
/// that other code has set, when no signal is recorded.
void endAtOnce(int) {
  if (const int signal = firstSignal.load())
    _exit(128 + signal);
}

void note(int signal) {
  received.fetch_or(uint64_t(1) << signal);
  int none = 0;
  if (firstSignal.compare_exchange_strong(none, signal))
    alarm(SignalWatch::kLastResortSeconds);
  ++signalCount;
}

} // namespace

SignalWatch::SignalWatch() {
  received = 0;
  firstSignal = signalCount = 0;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    const int signal = kSignals[i];
    sigaction(signal, nullptr, &before_[i]);
    struct sigaction action = {};
    action.sa_handler = signal == SIGALRM ? endAtOnce : note;
    if (signal == SIGALRM || before_[i].sa_handler != SIG_IGN)
      sigaction(signal, &action, nullptr);
  }
}

SignalWatch::~SignalWatch() {
  for (size_t i = std::size(kSignals) - 1; i > 0; --i)
    sigaction(kSignals[i], &before_[i], nullptr);
  alarm(0);
  firstSignal = 0;
  sigaction(SIGALRM, &before_[0], nullptr);
}

int SignalWatch::first() const { return firstSignal; }
int SignalWatch::count() const { return signalCount; }

bool SignalWatch::hasReceived(int signal, std::chrono::milliseconds patience) const {
  if (signal < 1 || signal > 63)
    return false;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  do {
    if (received.load() >> signal & 1)
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

} // namespace braid
