//===- api/status.h - the outcome of an operation that can fail -------------------------------===//
//
// A failure has a code and a message that says where it is, what was expected and what came. No
// exception crosses a library boundary. A code is also an exit code of `braid`.
//
// This header names nothing else of Braid: all layers share it with those who use the library.
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

/// Why something failed. The values are the exit codes of the command line and never change.
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

/// UTF-8 in which escapes stand for characters that a terminal would obey or not show: a message
/// may quote what a user or another host has said. New lines and tabs stay.
std::string printableMessage(std::string text);

/// Success, or a code with a message that says what was expected and what came; as
/// printableMessage() has it.
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

  /// The same failure, with where it happened put in front: "preparing rank 3: ...".
  Status annotated(const std::string &where) const {
    return isOk() ? *this : Status(code_, where + ": " + message_);
  }

private:
  StatusCode code_ = StatusCode::Ok;
  std::string message_;
};

/// Ends a program that takes the value of a failed Result.
[[noreturn]] inline void endWithoutValue(const Status &status) {
  std::fprintf(stderr, "braid: expected a value, got a failure: %s\n", status.message().c_str());
  std::abort();
}

/// A value, or the Status that says why there is none. Whoever takes the value of a failure ends
/// the program, with its message.
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
