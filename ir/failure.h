//===- ir/failure.h - makes failures, and hands them on ---------------------------------------===//
#pragma once

#include "api/status.h"

#include <fmt/format.h>

namespace braid {

// A failure of each code, with a message as fmt::format() makes it.
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

/// The failure whose exit code that is, or nothing.
inline std::optional<StatusCode> failureOfCode(int64_t code) {
  for (StatusCode failure : {StatusCode::WrongResult, StatusCode::BadInput, StatusCode::Rejected,
                             StatusCode::Unsupported, StatusCode::PeerFailed, StatusCode::TimedOut,
                             StatusCode::Internal})
    if (static_cast<int64_t>(failure) == code)
      return failure;
  return std::nullopt;
}

// BRAID_TRY() takes an outcome apart with these.
inline Status takeFailure(Status &&outcome) { return std::move(outcome); }
template <class T> const Status &takeFailure(const Result<T> &outcome) { return outcome.status(); }
inline void takeValue(Status &&) {}
template <class T> T takeValue(Result<T> &&outcome) { return std::move(*outcome); }

/// In functions that return Status or Result: returns the failure, if `...`, a Status or a Result,
/// is one; else has the value of the Result. Stands alone, or gives a variable or a container its
/// value; not within itself.
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
