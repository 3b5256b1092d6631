//===- api/status.h - the outcome of an operation that can fail -------------------------------===//
//
// A failure has a code and a message that names the place, what was expected, and what was found.
// No exception crosses a library boundary. A code is also an exit code of `braid`.
//
// Independent of the rest of Braid, because all layers and the users of the library share it.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace braid {

/// The kind of a failure. The values are the exit codes of the command line and never change.
enum class StatusCode {
  Ok = 0,
  WrongResult = 1, ///< a result differs from the reference
  BadInput = 2,    ///< usage error, or an input text that is not accepted
  Rejected = 3,    ///< the checker found a schedule unsafe
  Unsupported = 4, ///< not available in this build, on this machine, or in this version
  PeerFailed = 5,  ///< another rank died or failed first
  TimedOut = 6,    ///< no progress within the limit, or a proven deadlock
  Internal = 70,   ///< a bug in Braid
};

/// Returns UTF-8 in which escapes replace characters that a terminal would interpret or not
/// display, because a message may quote a user or another host. Keeps newlines and tabs.
std::string printableMessage(std::string text);

/// Success, or a code with a message that says what was expected and what was found, made safe by
/// printableMessage().
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusCode code, std::string message)
      : code_(code), message_(printableMessage(std::move(message))) {
    assert(code != StatusCode::Ok && "a failure needs a failing code");
  }
  static Status ok() { return {}; }

  bool isOk() const { return code_ == StatusCode::Ok; }
  StatusCode code() const { return code_; }
  const std::string &message() const { return message_; }

  /// Returns the same failure with `where` prepended: "preparing rank 3: ...".
  Status annotated(const std::string &where) const {
    return isOk() ? *this : Status(code_, where + ": " + message_);
  }

private:
  StatusCode code_ = StatusCode::Ok;
  std::string message_;
};

/// Ends the program after an access to the value of a failed Result.
[[noreturn]] inline void endWithoutValue(const Status &status) {
  std::fprintf(stderr, "braid: expected a value, got a failure: %s\n", status.message().c_str());
  std::abort();
}

/// A value, or the Status that explains why there is none. Accessing the value of a failure ends
/// the program with its message.
template <class T> class [[nodiscard]] Result {
public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {
    assert(!status_.isOk() && "success needs a value");
  }

  bool isOk() const { return value_.has_value(); }
  explicit operator bool() const { return isOk(); }
  const Status &status() const { return status_; }
  T &operator*() { return isOk() ? *value_ : (endWithoutValue(status_), *value_); }
  const T &operator*() const { return isOk() ? *value_ : (endWithoutValue(status_), *value_); }
  T *operator->() { return &**this; }
  const T *operator->() const { return &**this; }

private:
  std::optional<T> value_;
  Status status_;
};

} // namespace braid
