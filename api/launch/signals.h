//===- api/launch/signals.h - signals that ask a launcher to end ------------------------------===//
#pragma once

#include "runtime/job/bootstrap/socket.h"

#include <csignal>

namespace braid {

/// While it lives, SIGINT, SIGTERM and SIGHUP are noted instead of ending the process; those that
/// are ignored stay ignored. If the process has not ended kLastResortSeconds after one came, it
/// ends at once, whatever it is doing. At most one at a time. Handlers rather than a mask, because
/// libraries have threads that block nothing.
class SignalWatch {
public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch &) = delete;

  /// Readable when take() has something to give.
  int descriptor() const { return events_.get(); }
  /// The next signal that came, or 0.
  int take();
  /// The number of signals that take() has given.
  int taken() const { return taken_; }
  /// Whether `signal` has been received by now, or is within `patience`; does not take it.
  bool hasReceived(int signal, std::chrono::milliseconds patience) const;

  static constexpr unsigned kLastResortSeconds = 20;

private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

  FileDescriptor events_, sender_; ///< a pipe; a byte for each signal
  struct sigaction before_[3], alarmBefore_;
  bool isWatched_[3] = {};
  int taken_ = 0;
};

} // namespace braid
