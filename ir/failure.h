//===- ir/failure.h - creates and propagates failures -----------------------------------------===//
#pragma once

#include "api/status.h"

#include <fmt/format.h>

namespace braid {

// Create a failure of each code, with a message formatted by fmt::format().
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

/// Returns the failure with this exit code, or nothing.
inline std::optional<StatusCode> failureOfCode(int64_t code) {
  for (StatusCode failure : {StatusCode::WrongResult, StatusCode::BadInput, StatusCode::Rejected,
                             StatusCode::Unsupported, StatusCode::PeerFailed, StatusCode::TimedOut,
                             StatusCode::Internal})
    if (static_cast<int64_t>(failure) == code)
      return failure;
  return std::nullopt;
}

// BRAID_TRY() splits an outcome with these.
inline Status takeFailure(Status &&outcome) { return std::move(outcome); }
template <class T> const Status &takeFailure(const Result<T> &outcome) { return outcome.status(); }
inline void takeValue(Status &&) {}
template <class T> T takeValue(Result<T> &&outcome) { return std::move(*outcome); }

/// Evaluates a Status or a Result, in a function that returns Status or Result. Returns a failure
/// from that function; otherwise yields the value of the Result. May be a statement, or the value
/// of a variable or an element of a container; must not be nested.
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
