//===- api/pairs/measuring_job.cpp - what the ranks of one job are to measure -----------------===//

#include "api/pairs/measuring_job.h"

#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <nlohmann/json.hpp>

namespace braid {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostRanks = 4096;

bool isSize(int64_t bytes) {
  return bytes >= kLeastTransfer && bytes <= kMostTransfer && bytes % 4 == 0;
}

Path pathIn(const Json &json) {
  const std::optional<Path> path = pathFromName(json.at("path").get<std::string>());
  if (!path)
    throw std::invalid_argument("expected a path");
  return *path;
}

Json jsonOf(const PairWork &work) {
  return {{"source", work.source},
          {"destination", work.destination},
          {"path", name(work.path).str()},
          {"sizes", work.sizes}};
}

PairWork pairIn(const Json &json) {
  return {json.at("source"), json.at("destination"), pathIn(json),
          json.at("sizes").get<std::vector<int64_t>>()};
}

Json jsonOf(const TogetherWork &work) {
  return {{"path", name(work.path).str()}, {"bytes", work.bytes}, {"without", work.without}};
}

TogetherWork togetherIn(const Json &json) {
  return {pathIn(json), json.at("bytes"),
          json.at("without").get<std::vector<std::pair<int64_t, int64_t>>>()};
}

MeasuringJob jobIn(const Json &json) {
  MeasuringJob job;
  job.backend = json.at("backend");
  job.devices = json.at("devices").get<std::vector<int64_t>>();
  job.timeoutMs = json.at("timeout_ms");
  job.seconds = json.at("seconds");
  for (const Json &pair : json.at("pairs"))
    job.pairs.push_back(pairIn(pair));
  for (const Json &all : json.at("together"))
    job.together.push_back(togetherIn(all));
  return job;
}

bool isSensible(const MeasuringJob &job) {
  auto isPair = [&](int64_t source, int64_t destination) {
    return source != destination && llvm::is_contained(job.devices, source) &&
           llvm::is_contained(job.devices, destination);
  };
  const bool arePairs = llvm::all_of(job.pairs, [&](const PairWork &work) {
    return isPair(work.source, work.destination) && llvm::all_of(work.sizes, isSize) &&
           llvm::is_sorted(work.sizes);
  });
  const bool areTogether = llvm::all_of(job.together, [&](const TogetherWork &work) {
    return isSize(work.bytes) && llvm::all_of(work.without, [&](const auto &pair) {
             return isPair(pair.first, pair.second);
           });
  });
  return arePairs && areTogether && job.devices.size() >= 2 && job.devices.size() <= kMostRanks &&
         job.timeoutMs >= 1 && job.seconds >= 0;
}

} // namespace

std::string MeasuringJob::encode() const {
  Json all = {{"backend", backend}, {"devices", devices},     {"timeout_ms", timeoutMs},
              {"seconds", seconds}, {"pairs", Json::array()}, {"together", Json::array()}};
  for (const PairWork &work : pairs)
    all["pairs"].push_back(jsonOf(work));
  for (const TogetherWork &work : together)
    all["together"].push_back(jsonOf(work));
  return all.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

Result<MeasuringJob> MeasuringJob::decode(const std::string &text) {
  try {
    MeasuringJob job = jobIn(Json::parse(text));
    if (isSensible(job))
      return job;
    return badInput("expected what the ranks of a job are to measure, got what makes no sense");
  } catch (const std::exception &error) { // the library's, for any mistake
    return badInput("expected what the ranks of a job are to measure, got: {}", error.what());
  }
}

} // namespace braid
