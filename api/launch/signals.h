//===- api/launch/signals.h - signals that ask a launcher to end ------------------------------===//
#pragma once

#include "runtime/job/bootstrap/socket.h"

#include <csignal>

namespace braid {

/// While it lives, SIGINT, SIGTERM and SIGHUP are noted instead of ending the process; those that
/// are ignored stay ignored. If the process has not ended kLastResortSeconds after one came, it
/// ends at once, whatever it is doing. Watches may be nested: signals go to the innermost one,
/// which first takes over what the enclosing one has not taken yet, and at its end hands back what
/// it has not taken itself. Handlers rather than a mask, because libraries have threads that block
/// nothing.
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
  void passUntakenTo(const SignalWatch &other);

  FileDescriptor events_, sender_; ///< a pipe; a byte for each signal
  SignalWatch *enclosing_;         ///< or null
  struct sigaction before_[3], alarmBefore_;
  uint64_t receivedBefore_;
  bool isWatched_[3] = {};
  int taken_ = 0;
};

} // namespace braid
