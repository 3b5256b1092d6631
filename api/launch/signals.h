//===- api/launch/signals.h - signals that ask a launcher to end ------------------------------===//
#pragma once

#include "runtime/job/bootstrap/socket.h"

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

  /// A descriptor that is readable when take() has a signal to return.
  int descriptor() const { return events_.get(); }
  /// Returns the next received signal, or 0.
  int take();
  /// The number of signals that take() has returned.
  int taken() const { return taken_; }
  /// Returns true if `signal` is received by now or within `patience`. Does not consume it.
  bool hasReceived(int signal, std::chrono::milliseconds patience) const;

  static constexpr unsigned kLastResortSeconds = 20;

private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

  FileDescriptor events_, sender_; ///< a pipe with one byte for each signal
  struct sigaction before_[3], alarmBefore_;
  bool isWatched_[3] = {};
  int taken_ = 0;
};

} // namespace braid
