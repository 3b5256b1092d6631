//===- api/choose.cpp - how to run a fusion fastest -------------------------------------------===//

#include "api/choose.h"

#include "api/candidates.h"
#include "api/job_model.h"
#include "api/lowered_candidates.h"
#include "runtime/handshake.h"
#include "runtime/simulator.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <thread>

namespace braid {
namespace {

template <class T> std::string given(const std::optional<T> &value) {
  if constexpr (std::is_integral_v<T>)
    return value ? std::to_string(*value) : "open";
  else
    return value ? name(*value).str() : "open";
}

/// What all ranks have to have been asked.
std::vector<Choice> questionOf(const std::string &text, const ChooseOptions &options) {
  std::string ways, means, parameters;
  for (Issuing way : options.ways)
    ways += name(way).str() + " ";
  for (TransferMeans each : options.means)
    means += str(each) + "; ";
  for (const auto &[parameter, value] : options.given.parameters)
    parameters += fmt::format("{}={} ", parameter, value);
  return {{"fusion", text},
          {"--set", parameters},
          {"--schedule", given(options.given.schedule)},
          {"--protocol", given(options.given.protocol)},
          {"--chunks", given(options.given.chunks)},
          {"--taper", given(options.given.taper)},
          {"--streams", given(options.given.streams)},
          {"--transfers", given(options.given.transfers)},
          {"--time-best", given(options.timed)},
          {"means", means},
          {"ways to issue", ways}};
}

bool isPredictedFaster(const LoweredCandidate &a, const LoweredCandidate &b) {
  return a.predictedUs < b.predictedUs;
}

/// The best two of each family first: what the model gets wrong, it gets wrong for a schedule, the
/// means or the way, and more streams or chunks of the same are often the same again.
void bringFamiliesForward(std::vector<LoweredCandidate> &candidates) {
  constexpr int kOfAFamily = 2;
  std::map<std::string, int> seen;
  std::vector<LoweredCandidate> first, others;
  for (LoweredCandidate &each : candidates) {
    const Candidate &candidate = each.candidate;
    const std::string family =
        name(candidate.schedule).str() + str(candidate.means) + name(candidate.issuing).str();
    (seen[family]++ < kOfAFamily ? first : others).push_back(std::move(each));
  }
  candidates = std::move(first);
  std::move(others.begin(), others.end(), std::back_inserter(candidates));
}

JobModelOptions modelOptions(const ChooseOptions &options, std::vector<TransferMeans> means) {
  return {options.ways, std::move(means), options.cacheFolder, options.cacheKey, options.warn};
}

class Chooser {
public:
  Chooser(const std::string &name, const std::string &text, const ChooseOptions &options,
          PlanTimer &timer)
      : text_(text), options_(options), timer_(timer),
        means_(options.means.empty() ? meansOf(timer.device()) : options.means),
        lowering_(name, text, options.given, timer.ranks()),
        model_(timer, modelOptions(options, means_)) {}

  Result<ScheduleChoice> choose();

private:
  Status meet();
  Status findCandidates();
  Status predict();
  size_t countToTime() const;
  Status timeBest();
  Result<ScheduleChoice> decide();

  const std::string &text_;
  const ChooseOptions &options_;
  PlanTimer &timer_;
  const std::vector<TransferMeans> means_;
  CandidateLowering lowering_;
  JobModel model_;
  std::vector<LoweredCandidate> candidates_; ///< the best first, once they are predicted
};

/// All ranks have to have been asked the same.
Status Chooser::meet() {
  Result<std::vector<std::string>> all =
      timer_.transport().allGather(encodeChoices(questionOf(text_, options_)));
  return all ? compareChoices(*all) : all.status();
}

/// First what changes most, then the variants of the best of those.
Status Chooser::findCandidates() {
  lowering_.lower(broadCandidates({options_.given, options_.ways, means_, timer_.ranks(),
                                   lowering_.blockRows()}),
                  candidates_);
  if (candidates_.empty())
    return lowering_.refusal();
  if (Status status = predict(); !status.isOk())
    return status;
  constexpr size_t kRefined = 8;
  std::vector<Candidate> variants;
  for (size_t i = 0; i < std::min(kRefined, candidates_.size()); ++i)
    llvm::append_range(variants, variantsOf(candidates_[i].candidate, options_.given));
  lowering_.lower(variants, candidates_);
  return predict();
}

/// Sorts by the predicted time.
Status Chooser::predict() {
  std::vector<PlanMatmul> shapes;
  for (const LoweredCandidate &each : candidates_)
    llvm::append_range(shapes, each.plans->front().matmuls);
  if (Status status = model_.addProducts(shapes); !status.isOk())
    return status;
  for (LoweredCandidate &each : candidates_) {
    Result<Simulation> simulation =
        simulate(*each.plans, model_.model(), {each.candidate.issuing, each.candidate.means});
    if (!simulation)
      return simulation.status().annotated(each.candidate.str());
    each.predictedUs = simulation->us;
  }
  llvm::stable_sort(candidates_, isPredictedFaster);
  return Status::ok();
}

/// Those that may be as fast as the best, if predictions are as wrong as they are known to be.
size_t Chooser::countToTime() const {
  constexpr double kOff = 0.15;
  constexpr size_t kLeast = 3, kMost = 10;
  if (candidates_.size() < 2 || options_.timed == 0)
    return 0;
  if (options_.timed)
    return std::min(static_cast<size_t>(std::max<int64_t>(*options_.timed, 0)), candidates_.size());
  const double limit = candidates_.front().predictedUs * (1 + kOff);
  auto isNear = [&](const LoweredCandidate &each) { return each.predictedUs <= limit; };
  const size_t near = static_cast<size_t>(llvm::count_if(candidates_, isNear));
  return std::min(std::clamp(near, kLeast, kMost), candidates_.size());
}

Status Chooser::timeBest() {
  const int64_t count = static_cast<int64_t>(countToTime());
  bringFamiliesForward(candidates_);
  for (LoweredCandidate &each :
       llvm::MutableArrayRef<LoweredCandidate>(candidates_).take_front(size_t(count))) {
    Result<std::vector<RunTime>> times =
        timer_.time(*each.plans, {each.candidate.issuing},
                    {.least = 3, .most = 15, .budgetUs = 50000}, each.candidate.means);
    if (!times)
      return times.status().annotated(each.candidate.str());
    each.measuredUs = times->front().us;
  }
  std::stable_sort(candidates_.begin(), candidates_.begin() + count,
                   [](const LoweredCandidate &a, const LoweredCandidate &b) {
                     return *a.measuredUs < *b.measuredUs;
                   });
  std::stable_sort(candidates_.begin() + count, candidates_.end(), isPredictedFaster);
  return Status::ok();
}

/// Rank 0's best becomes everyone's.
Result<ScheduleChoice> Chooser::decide() {
  Result<std::string> best = timer_.fromRankZero(candidates_.front().candidate.str());
  if (!best)
    return best.status();
  auto chosen = llvm::find_if(
      candidates_, [&](const LoweredCandidate &each) { return each.candidate.str() == *best; });
  if (chosen == candidates_.end())
    return Status(StatusCode::Internal, "rank 0 chose what is no candidate here: " + *best);
  std::rotate(candidates_.begin(), chosen, chosen + 1);
  ScheduleChoice choice;
  for (const LoweredCandidate &each : candidates_)
    choice.candidates.push_back({each.candidate, each.predictedUs, each.measuredUs});
  choice.fusion = lowering_.fusion();
  choice.ranks = timer_.ranks();
  choice.reason = reasonFor(choice.candidates);
  choice.source = model_.source();
  return choice;
}

Result<ScheduleChoice> Chooser::choose() {
  if (Status status = meet(); !status.isOk())
    return status;
  if (Status status = lowering_.findFusion(); !status.isOk())
    return status;
  if (Status status = model_.find(); !status.isOk())
    return status;
  if (Status status = findCandidates(); !status.isOk())
    return status;
  if (Status status = timeBest(); !status.isOk())
    return status;
  return decide();
}

} // namespace

ChooseOptions chooseOptions(const Backend &backend, bool ranksAreProcesses) {
  ChooseOptions options;
  if (backend.hasGraphs)
    options.ways.push_back(Issuing::Graph);
  options.cacheFolder = measurementFolder(processEnvironment());
  options.cacheKey =
      fmt::format("braid {}, backend {}, ranks as {}, {} cores", BRAID_VERSION, backend.name,
                  ranksAreProcesses ? "processes" : "threads", std::thread::hardware_concurrency());
  return options;
}

Result<ScheduleChoice> choose(const std::string &name, const std::string &text,
                              const ChooseOptions &options, PlanTimer &timer) {
  return Chooser(name, text, options, timer).choose();
}

Result<GatherRow> chooseRow(GatherRow row, ChooseOptions options, PlanTimer &timer,
                            ScheduleChoice *choice) {
  options.given = row.options;
  options.given.schedule = std::nullopt;
  if (row.means != TransferMeans())
    options.means = {row.means};
  Result<ScheduleChoice> found = choose(row.name, row.text, options, timer);
  if (!found)
    return found.status();
  row.options = found->best().applyTo(row.options);
  row.isGraphed = found->best().issuing == Issuing::Graph;
  row.means = found->best().means;
  row.isAuto = false;
  if (choice)
    *choice = std::move(*found);
  return row;
}

} // namespace braid
