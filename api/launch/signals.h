//===- api/launch/signals.h - signals that ask a launcher to end ------------------------------===//
#pragma once

#include <chrono>
#include <csignal>

namespace braid {

/// While this object lives, SIGINT, SIGTERM and SIGHUP are recorded instead of ending the process;
/// signals that are ignored stay ignored. If the process still runs kLastResortSeconds after the
/// first signal, it exits at once. At most one object may exist at a time. Uses handlers rather
/// than a signal mask, because threads of libraries block no signals.
class SignalWatch {
public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch &) = delete;

  /// Returns the first received signal, or 0.
  int first() const;
  /// Returns the number of received signals.
  int count() const;
  /// Waits up to `patience` until first() is `signal`. Returns true if it is.
  bool isFirstWithin(int signal, std::chrono::milliseconds patience) const;

  static constexpr unsigned kLastResortSeconds = 20;

private:
  static constexpr int kSignals[] = {SIGALRM, SIGINT, SIGTERM, SIGHUP};

  struct sigaction before_[4];
};

} // namespace braid
