//===- api/launch/signals.cpp - records signals that ask a launcher to end --------------------===//

#include "api/launch/signals.h"

#include <atomic>
#include <iterator>

#include <unistd.h>

namespace braid {
namespace {

// The signal handlers access only these variables.
std::atomic<int> firstSignal{0}, signalCount{0};

/// Handles the last-resort alarm by exiting: a process that is still running must be hanging. Does
/// nothing if no signal was recorded, because other code has then set the alarm.
void endAtOnce(int) {
  if (const int signal = firstSignal.load())
    _exit(128 + signal);
}

void note(int signal) {
  int none = 0;
  if (firstSignal.compare_exchange_strong(none, signal))
    alarm(SignalWatch::kLastResortSeconds);
  ++signalCount;
}

} // namespace

SignalWatch::SignalWatch() {
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

} // namespace braid
