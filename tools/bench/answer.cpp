//===- tools/bench/answer.cpp - what a worker says about one row ------------------------------===//

#include "tools/bench/answer.h"

#include <algorithm>
#include <cmath>

namespace braid::tools {

using Json = nlohmann::json;

bool answers(const Json &message, uint64_t id) {
  auto found = message.find("id");
  return found != message.end() && found->is_number_integer() && *found == id;
}

Result<Answer> Answer::from(const Json &message) {
  auto failure = message.find("failure");
  if (failure != message.end() && failure->is_string()) {
    const std::string text = failure->get<std::string>();
    return Answer{{}, text.empty() ? "no reason given" : text, ""};
  }
  auto isTime = [](const Json &time) {
    return time.is_number() && std::isfinite(time.get<double>()) && time.get<double>() >= 0;
  };
  auto samples = message.find("samples_us");
  if (samples == message.end() || !samples->is_array() || samples->empty() ||
      !std::all_of(samples->begin(), samples->end(), isTime))
    return Status(StatusCode::BadInput, "expected times or a failure as the worker's answer");
  auto choice = message.find("choice");
  return Answer{samples->get<std::vector<double>>(), "",
                choice != message.end() && choice->is_string() ? choice->get<std::string>() : ""};
}

} // namespace braid::tools
