//===- ir/failure.h - creates and propagates failures -----------------------------------------===//
#pragma once

#include "api/status.h"

#include <fmt/format.h>

namespace braid {

// The following functions create failures; fmt::format() formats their messages.
template <class... Args> Status badInput(fmt::format_string<Args...> format, Args &&...args) {
  return {StatusCode::BadInput, fmt::format(format, std::forward<Args>(args)...)};
}
template <class... Args> Status unsupported(fmt::format_string<Args...> format, Args &&...args) {
  return {StatusCode::Unsupported, fmt::format(format, std::forward<Args>(args)...)};
}
template <class... Args> Status peerFailed(fmt::format_string<Args...> format, Args &&...args) {
  return {StatusCode::PeerFailed, fmt::format(format, std::forward<Args>(args)...)};
}
template <class... Args> Status timedOut(fmt::format_string<Args...> format, Args &&...args) {
  return {StatusCode::TimedOut, fmt::format(format, std::forward<Args>(args)...)};
}
template <class... Args> Status internalError(fmt::format_string<Args...> format, Args &&...args) {
  return {StatusCode::Internal, fmt::format(format, std::forward<Args>(args)...)};
}

/// Returns the failure whose exit code is `code`, or std::nullopt.
inline std::optional<StatusCode> failureOfCode(int64_t code) {
  for (StatusCode failure : {StatusCode::WrongResult, StatusCode::BadInput, StatusCode::Rejected,
                             StatusCode::Unsupported, StatusCode::PeerFailed, StatusCode::TimedOut,
                             StatusCode::Internal})
    if (static_cast<int64_t>(failure) == code)
      return failure;
  return std::nullopt;
}

// Helpers for BRAID_TRY() that extract the failure or the value from a Status or Result.
inline Status takeFailure(Status &&outcome) { return std::move(outcome); }
template <class T> const Status &takeFailure(const Result<T> &outcome) { return outcome.status(); }
inline void takeValue(Status &&) {}
template <class T> T takeValue(Result<T> &&outcome) { return std::move(*outcome); }

/// Evaluates a Status or Result expression. On failure, returns the failure from the enclosing
/// function, which must return Status or Result; otherwise yields the Result's value. Usable as a
/// statement, or to initialize a variable or a container element. Must not be nested.
///
///   BRAID_TRY(device.synchronize());
///   std::vector<Plan> plans = BRAID_TRY(makePlans(compiled));
#define BRAID_TRY(...)                                                                             \
  __extension__({                                                                                  \
    auto braidOutcome = (__VA_ARGS__);                                                             \
    if (!braidOutcome.isOk())                                                                      \
      return ::braid::takeFailure(std::move(braidOutcome));                                        \
    ::braid::takeValue(std::move(braidOutcome));                                                   \
  })

} // namespace braid
