//===- api/status.h - the outcome of an operation that can fail -------------------------------===//
//
// A failure has a code and a message that states where it occurred, what was expected, and what was
// found. The codes are also the exit codes of `braid`. No exception crosses a library boundary.
//
// This header includes no other Braid header, because all layers and all users include it.
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

/// The kind of failure. The values are the exit codes of `braid` and never change.
enum class StatusCode {
  Ok = 0,
  WrongResult = 1, ///< a result differs from the reference
  BadInput = 2,    ///< usage error, or invalid input text
  Rejected = 3,    ///< the checker found the schedule to be unsafe
  Unsupported = 4, ///< not available in this build, on this machine, or in this version
  PeerFailed = 5,  ///< another rank died or failed first
  TimedOut = 6,    ///< no progress within the time limit, or a proven deadlock
  Internal = 70,   ///< a bug in Braid
};

/// Returns `text` as UTF-8, escaping characters that a terminal would interpret or cannot display,
/// because messages may quote text from users or other hosts. Preserves newlines and tabs.
std::string printableMessage(std::string text);

/// Success, or an error code and a message. The constructor passes the message through
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

  /// Prepends `where` to the message of a failure: "preparing rank 3: ...". Leaves Ok unchanged.
  Status annotated(const std::string &where) const {
    return isOk() ? *this : Status(code_, where + ": " + message_);
  }

private:
  StatusCode code_ = StatusCode::Ok;
  std::string message_;
};

/// Called when the value of a failed Result is accessed: prints the failure and aborts.
[[noreturn]] inline void endWithoutValue(const Status &status) {
  std::fprintf(stderr, "braid: expected a value, got a failure: %s\n", status.message().c_str());
  std::abort();
}

/// A value, or the Status that explains why there is none. Accessing the value of a failed Result
/// aborts the process.
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
