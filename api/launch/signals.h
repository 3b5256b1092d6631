//===- api/launch/signals.h - records signals that ask a launcher to end ----------------------===//
#pragma once

#include <csignal>

namespace braid {

/// While this object exists, SIGINT, SIGTERM and SIGHUP are recorded instead of ending the process;
/// ignored signals stay ignored. If the process is still running kLastResortSeconds after the first
/// signal, the process is forced to exit. At most one object may exist at a time. Uses handlers
/// rather than a signal mask, because threads created by libraries do not block the signals.
class SignalWatch {
public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch &) = delete;

  /// Returns the first signal received, or 0.
  int first() const;
  /// Returns the number of signals received.
  int count() const;

  static constexpr unsigned kLastResortSeconds = 20;

private:
  static constexpr int kSignals[] = {SIGALRM, SIGINT, SIGTERM, SIGHUP};

  struct sigaction before_[4];
};

} // namespace braid
