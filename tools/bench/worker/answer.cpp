//===- tools/bench/worker/answer.cpp - what a worker says about one row -----------------------===//

#include "tools/bench/worker/answer.h"

#include "ir/failure.h"

#include <algorithm>
#include <cmath>

namespace braid::tools {

using Json = nlohmann::json;

namespace {

/// Empty if there is something else. What is not there is a list of none.
std::optional<std::vector<double>> timesIn(const Json &message, const char *key) {
  auto isTime = [](const Json &time) {
    return time.is_number() && std::isfinite(time.get<double>()) && time.get<double>() >= 0;
  };
  auto times = message.find(key);
  if (times == message.end())
    return std::vector<double>();
  if (!times->is_array() || !std::all_of(times->begin(), times->end(), isTime))
    return std::nullopt;
  return times->get<std::vector<double>>();
}

/// Only a text or a flag that is not accepted, and what is not there, refuses a row; and one may
/// stand still.
StatusCode refusalIn(const Json &message) {
  for (StatusCode code :
       {StatusCode::BadInput, StatusCode::Unsupported, StatusCode::Rejected, StatusCode::TimedOut})
    if (auto found = message.find("code");
        found != message.end() && *found == static_cast<int>(code))
      return code;
  return StatusCode::PeerFailed;
}

} // namespace

bool answers(const Json &message, uint64_t id) {
  auto found = message.find("id");
  return found != message.end() && found->is_number_integer() && *found == id;
}

Result<Answer> Answer::from(const Json &message) {
  auto failure = message.find("failure");
  if (failure != message.end() && failure->is_string()) {
    const std::string text = failure->get<std::string>();
    return Answer{{}, text.empty() ? "no reason given" : text, {}, "", refusalIn(message)};
  }
  std::optional<std::vector<double>> samples = timesIn(message, "samples_us");
  std::optional<std::vector<double>> bursts = timesIn(message, "burst_us");
  if (!samples || samples->empty() || !bursts)
    return badInput("expected times or a failure as the worker's answer");
  auto choice = message.find("choice");
  return Answer{std::move(*samples), "", std::move(*bursts),
                choice != message.end() && choice->is_string() ? choice->get<std::string>() : ""};
}

} // namespace braid::tools
