//===- api/choose.cpp - how to run a fusion fastest -------------------------------------------===//

#include "api/choose.h"

#include "api/measure_products.h"
#include "api/plans.h"
#include "runtime/handshake.h"
#include "runtime/measurement_cache.h"
#include "runtime/simulator.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <thread>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;

// -- The candidates. --

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Fewer rows make products that leave most of a GPU idle.
constexpr int64_t kLeastRows = 64;

template <class T> std::vector<T> only(const std::optional<T> &given, std::vector<T> all) {
  return given ? std::vector<T>{*given} : all;
}

/// Chunks of a block that are worth a look.
std::vector<int64_t> chunkCounts(int64_t ranks, int64_t blockRows) {
  std::vector<int64_t> counts = {0};
  for (int64_t each : {2, 4, 8})
    if (blockRows / each >= kLeastRows)
      counts.push_back(each * ranks);
  return counts;
}

/// How transfers may be made, the default first.
std::vector<TransferMeans> meansWorthALook(const ChooseOptions &options, const Device &device) {
  if (!options.means.empty())
    return options.means;
  std::vector<TransferMeans> all = {
      {}, {CopyBy::Kernel, SignalBy::Default}, {CopyBy::Engine, SignalBy::Kernel}};
  llvm::erase_if(all, [&](TransferMeans means) { return !device.offers(means); });
  return all;
}

/// Schedule, protocol and chunks: what changes most.
std::vector<Candidate> broadLowerings(const CompileOptions &given, int64_t ranks,
                                      int64_t blockRows) {
  Candidate first;
  first.streams = given.streams.value_or(std::clamp<int64_t>(ranks, 1, 3));
  first.taper = given.taper.value_or(1);
  first.transfers = given.transfers.value_or(Transfers::Each);
  std::vector<Candidate> all;
  for (Schedule schedule : only(given.schedule, allSchedules().vec()))
    for (Protocol protocol : only(given.protocol, {Protocol::Get, Protocol::Put}))
      for (int64_t chunks :
           only(given.chunks, multipliesWhole(schedule) ? std::vector<int64_t>{0}
                                                        : chunkCounts(ranks, blockRows))) {
        Candidate candidate = first;
        candidate.schedule = schedule;
        candidate.protocol = protocol;
        candidate.chunks = chunks;
        all.push_back(candidate);
      }
  return all;
}

/// The first look: those, by all means and in all ways.
std::vector<Candidate> broadCandidates(const ChooseOptions &options,
                                       llvm::ArrayRef<TransferMeans> means, int64_t ranks,
                                       int64_t blockRows) {
  std::vector<Candidate> all;
  for (Candidate candidate : broadLowerings(options.given, ranks, blockRows))
    for (TransferMeans each : means)
      for (Issuing issuing : options.ways) {
        candidate.means = each;
        candidate.issuing = issuing;
        all.push_back(candidate);
      }
  return all;
}

/// The second look, around one that did well: other streams, streams for transfers alone, and
/// smaller chunks at the end.
std::vector<Candidate> variantsOf(const Candidate &candidate, const CompileOptions &given) {
  std::vector<Candidate> all;
  const bool isWhole = multipliesWhole(candidate.schedule);
  const bool hasChoice = candidate.schedule == Schedule::Pairwise;
  for (int64_t streams : only(given.streams, {1, 2, 3, 4, 5, 8}))
    for (int64_t taper : isWhole ? std::vector{candidate.taper} : only(given.taper, {1, 2}))
      for (Transfers transfers : hasChoice
                                     ? only(given.transfers, {Transfers::Each, Transfers::Shared})
                                     : std::vector{candidate.transfers}) {
        Candidate variant = candidate;
        variant.streams = streams;
        variant.taper = taper;
        variant.transfers = transfers;
        all.push_back(variant);
      }
  return all;
}

/// What rank 0 does, in numbers: equal for candidates between which nothing decides.
std::string signatureOf(const Plan &plan) {
  std::string text;
  for (const Command &c : plan.commands)
    text +=
        fmt::format("{} {} {} {} {} {} {} {} {} {} {}\n", static_cast<int>(c.kind), c.stream,
                    c.endpoint, c.word, c.event, c.dst.buffer, c.dst.offset, c.dst.bytes,
                    c.src.buffer, c.src.offset, c.matmul == kNone ? 0 : plan.matmuls[c.matmul].m);
  return text;
}

/// A candidate with all ranks' Plans.
struct Lowered {
  Candidate candidate;
  std::shared_ptr<const std::vector<Plan>> plans; ///< shared with those that are lowered the same
  double predictedUs = 0;
  std::optional<double> measuredUs = {};
  bool isForward = false; ///< one of the best of its family
};

bool isPredictedFaster(const Lowered &a, const Lowered &b) { return a.predictedUs < b.predictedUs; }

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

class Chooser {
public:
  Chooser(const std::string &name, const std::string &text, const ChooseOptions &options,
          PlanTimer &timer)
      : name_(name), text_(text), options_(options), timer_(timer),
        means_(meansWorthALook(options, timer.device())) {}

  Result<ScheduleChoice> choose();

private:
  Status meet();
  Result<std::vector<Plan>> plansOf(const CompileOptions &options);
  std::shared_ptr<const std::vector<Plan>> lowered(const Candidate &candidate);
  Status findFusion();
  Status findModel();
  Status keepModel();
  void look(const std::vector<Candidate> &candidates);
  Status predict();
  size_t countToTime() const;
  void bringForward();
  Status timeBest();
  Result<ScheduleChoice> decide();
  std::string reason() const;
  std::string sourceText() const;
  CalibrationOptions calibration();
  bool knowsEnough(const CostModel &model) const;
  std::string key() const {
    return fmt::format("cost model of {} ranks, {}", timer_.ranks(), options_.cacheKey);
  }

  const std::string &name_, &text_;
  const ChooseOptions &options_;
  PlanTimer &timer_;
  const std::vector<TransferMeans> means_;
  std::unique_ptr<MeasurementCache> cache_; ///< of rank 0
  CostModel model_;
  std::string source_; ///< the file that the model is from
  std::string fusion_;
  int64_t blockRows_ = 0;
  std::vector<Lowered> lowered_;
  double calibrationSeconds_ = 0, productSeconds_ = 0;                    ///< spent on measuring
  std::map<std::string, std::shared_ptr<const std::vector<Plan>>> plans_; ///< null: refused
  std::set<std::string> seen_; ///< signatures with the way that they are issued
  Status refusal_;             ///< why the first candidate that cannot be lowered cannot
};

Result<std::vector<Plan>> Chooser::plansOf(const CompileOptions &options) {
  std::unique_ptr<Source> source = parseSource(name_, text_);
  Result<Compiled> compiled = compile(*source, options);
  if (compiled && !compiled->isLowered)
    return Status(StatusCode::BadInput,
                  fmt::format("--schedule steers lowering, but @{} in '{}' is a program already",
                              compiled->program->name(), name_));
  Result<std::vector<Plan>> plans = compiled ? makePlans(*compiled) : compiled.status();
  if (!plans && source->diags.hasErrors())
    return Status(plans.status().code(), source->diags.str());
  if (plans && fusion_.empty())
    fusion_ = compiled->fusion->name();
  return plans;
}

/// What any schedule of it looks like: how many rows a block has.
Status Chooser::findFusion() {
  CompileOptions options = options_.given;
  options.ranks = timer_.ranks();
  options.schedule = options.schedule.value_or(Schedule::Pairwise);
  Result<std::vector<Plan>> plans = plansOf(options);
  if (!plans)
    return plans.status();
  int64_t rows = 0;
  for (const Command &command : plans->front().commands)
    if (command.kind == CommandKind::Matmul)
      rows += plans->front().matmuls[command.matmul].m;
  blockRows_ = rows / timer_.ranks();
  return Status::ok();
}

// -- The model. --

/// Where the host's own cores do the work, all is slow, and its memory is that of all ranks.
CalibrationOptions Chooser::calibration() {
  CalibrationOptions calibration;
  calibration.ways = options_.ways;
  calibration.means = means_;
  if (!timer_.device().sharesHostMemory())
    return calibration;
  calibration.largeBytes = int64_t(1) << 20;
  calibration.effort = {.warmUp = 1, .least = 1, .most = 7, .budgetUs = 5000};
  return calibration;
}

bool Chooser::knowsEnough(const CostModel &model) const {
  return llvm::all_of(options_.ways, [&](Issuing way) {
    return llvm::all_of(means_, [&](TransferMeans means) { return model.find(way, means); });
  });
}

/// Rank 0's from the cache; what it lacks is measured.
Status Chooser::findModel() {
  const Clock::time_point start = Clock::now();
  std::string kept;
  if (timer_.rank() == 0) {
    const std::string machine =
        fmt::format("{}, {}", options_.cacheKey, timer_.device().description());
    cache_ = std::make_unique<MeasurementCache>(options_.cacheFolder, machine, options_.warn);
    kept = cache_->find(key()).value_or("");
  }
  Result<std::string> text = timer_.fromRankZero(std::move(kept));
  if (!text)
    return text.status();
  Result<CostModel> known = CostModel::decode(*text);
  if (known)
    model_ = std::move(*known);
  if (known && knowsEnough(model_)) {
    source_ = cache_ ? cache_->path() : "";
    return Status::ok();
  }
  if (!text->empty() && !known && timer_.rank() == 0 && options_.warn)
    options_.warn("the kept cost model is measured again: " + known.status().message());
  Result<CostModel> measured = calibrate(timer_, calibration());
  if (!measured)
    return measured.status();
  for (const OperationCosts &costs : measured->operations)
    model_.add(costs);
  model_.machine = measured->machine;
  model_.ranks = measured->ranks;
  calibrationSeconds_ = secondsSince(start);
  return keepModel();
}

Status Chooser::keepModel() {
  // The measurements of other ranks differ; what rank 0 made of the maxima is what counts.
  Result<std::string> text = timer_.fromRankZero(model_.encode());
  if (!text)
    return text.status();
  Result<CostModel> model = CostModel::decode(*text);
  if (!model)
    return model.status();
  model_ = std::move(*model);
  if (cache_) {
    cache_->set(key(), *text);
    cache_->save();
  }
  return Status::ok();
}

// -- Looking at candidates. --

/// Null if it cannot be lowered. How it is issued, and by what means, makes no difference.
std::shared_ptr<const std::vector<Plan>> Chooser::lowered(const Candidate &candidate) {
  Candidate key = candidate;
  key.issuing = Issuing::Eager;
  key.means = {};
  auto [entry, isNew] = plans_.try_emplace(key.str());
  if (!isNew)
    return entry->second;
  CompileOptions options = candidate.applyTo(options_.given);
  options.ranks = timer_.ranks();
  Result<std::vector<Plan>> plans = plansOf(options);
  if (plans)
    entry->second = std::make_shared<const std::vector<Plan>>(std::move(*plans));
  else if (refusal_.isOk())
    refusal_ = plans.status();
  return entry->second;
}

/// Takes up those that do not come to the same as one before.
void Chooser::look(const std::vector<Candidate> &candidates) {
  for (const Candidate &candidate : candidates) {
    auto plans = lowered(candidate);
    if (!plans)
      continue;
    const std::string how = str(candidate.means) + name(candidate.issuing).str();
    if (seen_.insert(signatureOf(plans->front()) + how).second)
      lowered_.push_back({candidate, plans});
  }
}

/// Measures what products there are, and sorts by the predicted time.
Status Chooser::predict() {
  const Clock::time_point start = Clock::now();
  std::vector<PlanMatmul> shapes;
  for (const Lowered &each : lowered_)
    llvm::append_range(shapes, each.plans->front().matmuls);
  Result<bool> hasMeasured = measureProducts(model_, shapes, timer_, calibration());
  if (!hasMeasured)
    return hasMeasured.status();
  productSeconds_ += *hasMeasured ? secondsSince(start) : 0;
  if (*hasMeasured)
    if (Status status = keepModel(); !status.isOk())
      return status;
  for (Lowered &each : lowered_) {
    Result<Simulation> simulation =
        simulate(*each.plans, model_, {each.candidate.issuing, each.candidate.means});
    if (!simulation)
      return simulation.status().annotated(each.candidate.str());
    each.predictedUs = simulation->us;
  }
  llvm::stable_sort(lowered_, isPredictedFaster);
  return Status::ok();
}

/// Those that may be as fast as the best, if predictions are as wrong as they are known to be.
size_t Chooser::countToTime() const {
  constexpr double kOff = 0.15;
  constexpr size_t kLeast = 3, kMost = 10;
  if (lowered_.size() < 2 || options_.timed == 0)
    return 0;
  if (options_.timed)
    return std::min(static_cast<size_t>(std::max<int64_t>(*options_.timed, 0)), lowered_.size());
  const double limit = lowered_.front().predictedUs * (1 + kOff);
  auto isNear = [&](const Lowered &each) { return each.predictedUs <= limit; };
  const size_t near = static_cast<size_t>(llvm::count_if(lowered_, isNear));
  return std::min(std::clamp(near, kLeast, kMost), lowered_.size());
}

/// The best two of each family first: what the model gets wrong, it gets wrong for a schedule, the
/// means or the way, and more streams or chunks of the same are often the same again.
void Chooser::bringForward() {
  constexpr int kOfAFamily = 2;
  std::map<std::string, int> seen;
  for (Lowered &each : lowered_) {
    const Candidate &candidate = each.candidate;
    const std::string family =
        name(candidate.schedule).str() + str(candidate.means) + name(candidate.issuing).str();
    each.isForward = seen[family]++ < kOfAFamily;
  }
  std::stable_partition(lowered_.begin(), lowered_.end(),
                        [](const Lowered &each) { return each.isForward; });
}

Status Chooser::timeBest() {
  const int64_t count = static_cast<int64_t>(countToTime());
  bringForward();
  for (Lowered &each : llvm::MutableArrayRef<Lowered>(lowered_).take_front(size_t(count))) {
    Result<std::vector<RunTime>> times =
        timer_.time(*each.plans, {each.candidate.issuing},
                    {.least = 3, .most = 15, .budgetUs = 50000}, each.candidate.means);
    if (!times)
      return times.status().annotated(each.candidate.str());
    each.measuredUs = times->front().us;
  }
  std::stable_sort(
      lowered_.begin(), lowered_.begin() + count,
      [](const Lowered &a, const Lowered &b) { return *a.measuredUs < *b.measuredUs; });
  std::stable_sort(lowered_.begin() + count, lowered_.end(), isPredictedFaster);
  return Status::ok();
}

/// Rank 0's best becomes everyone's.
Result<ScheduleChoice> Chooser::decide() {
  Result<std::string> best = timer_.fromRankZero(lowered_.front().candidate.str());
  if (!best)
    return best.status();
  auto chosen =
      llvm::find_if(lowered_, [&](const Lowered &each) { return each.candidate.str() == *best; });
  if (chosen == lowered_.end())
    return Status(StatusCode::Internal, "rank 0 chose what is no candidate here: " + *best);
  std::rotate(lowered_.begin(), chosen, chosen + 1);
  ScheduleChoice choice{{}, fusion_, timer_.ranks(), reason(), sourceText()};
  for (const Lowered &each : lowered_)
    choice.candidates.push_back({each.candidate, each.predictedUs, each.measuredUs});
  return choice;
}

std::string Chooser::reason() const {
  const int64_t timed =
      llvm::count_if(lowered_, [](const Lowered &each) { return each.measuredUs.has_value(); });
  if (lowered_.size() == 1)
    return "the only one that the flags leave";
  std::string text = timed > 1 ? fmt::format("the fastest of the {} that were timed", timed)
                               : "predicted to be the fastest";
  auto sequential = llvm::find_if(
      lowered_, [](const Lowered &each) { return multipliesWhole(each.candidate.schedule); });
  if (sequential == lowered_.begin())
    return text + "; nothing hides more than it costs here";
  if (sequential != lowered_.end())
    text += fmt::format("; gathering first {} {:.1f} us",
                        sequential->measuredUs ? "takes" : "would take",
                        sequential->measuredUs.value_or(sequential->predictedUs));
  return text;
}

std::string Chooser::sourceText() const {
  std::string text = calibrationSeconds_ > 0
                         ? fmt::format("measured in {:.2f} s", calibrationSeconds_)
                         : "from " + (source_.empty() ? "memory" : source_);
  return productSeconds_ > 0 ? text + fmt::format(", products in {:.2f} s", productSeconds_) : text;
}

Status Chooser::meet() {
  Result<std::vector<std::string>> all =
      timer_.transport().allGather(encodeChoices(questionOf(text_, options_)));
  return all ? compareChoices(*all) : all.status();
}

Result<ScheduleChoice> Chooser::choose() {
  if (Status status = meet(); !status.isOk())
    return status;
  if (Status status = findFusion(); !status.isOk())
    return status;
  if (Status status = findModel(); !status.isOk())
    return status;
  look(broadCandidates(options_, means_, timer_.ranks(), blockRows_));
  if (lowered_.empty())
    return refusal_;
  if (Status status = predict(); !status.isOk())
    return status;
  constexpr size_t kRefined = 8;
  std::vector<Candidate> variants;
  for (size_t i = 0; i < std::min(kRefined, lowered_.size()); ++i)
    llvm::append_range(variants, variantsOf(lowered_[i].candidate, options_.given));
  look(variants);
  if (Status status = predict(); !status.isOk())
    return status;
  if (Status status = timeBest(); !status.isOk())
    return status;
  return decide();
}

// -- Text. --

Status badPart(llvm::StringRef part) {
  return Status(StatusCode::BadInput,
                fmt::format("expected SCHEDULE;protocol=P;chunks=S;streams=K;taper=T;transfers=X;"
                            "copies=C;signals=G;issuing=I, got '{}' in it",
                            part.str()));
}

bool setPart(Candidate &candidate, llvm::StringRef key, llvm::StringRef value) {
  int64_t number = 0;
  const bool isNumber = !value.getAsInteger(10, number) && number >= 0;
  if (key == "protocol" && (value == "get" || value == "put"))
    candidate.protocol = value == "get" ? Protocol::Get : Protocol::Put;
  else if (key == "issuing" && (value == "eager" || value == "graph"))
    candidate.issuing = value == "graph" ? Issuing::Graph : Issuing::Eager;
  else if (key == "transfers" && transfersFromName(value))
    candidate.transfers = *transfersFromName(value);
  else if (key == "copies" && copyByFromName(value))
    candidate.means.copies = *copyByFromName(value);
  else if (key == "signals" && signalByFromName(value))
    candidate.means.signals = *signalByFromName(value);
  else if (key == "chunks" && isNumber)
    candidate.chunks = number;
  else if (key == "streams" && isNumber)
    candidate.streams = number;
  else if (key == "taper" && isNumber)
    candidate.taper = number;
  else
    return false;
  return true;
}

} // namespace

CompileOptions Candidate::applyTo(CompileOptions options) const {
  options.schedule = schedule;
  options.protocol = protocol;
  options.streams = streams;
  options.taper = taper;
  options.transfers = transfers;
  if (chunks > 0)
    options.chunks = chunks;
  return options;
}

std::string Candidate::str() const {
  std::string text = fmt::format("{};protocol={};chunks={};streams={}", name(schedule).str(),
                                 name(protocol).str(), chunks, streams);
  if (taper != 1)
    text += fmt::format(";taper={}", taper);
  if (transfers != Transfers::Each)
    text += ";transfers=" + name(transfers).str();
  if (means.copies != CopyBy::Default)
    text += ";copies=" + name(means.copies).str();
  if (means.signals != SignalBy::Default)
    text += ";signals=" + name(means.signals).str();
  return text + ";issuing=" + name(issuing).str();
}

Result<Candidate> Candidate::fromText(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef, 8> parts;
  text.split(parts, ';');
  std::optional<Schedule> schedule = scheduleFromName(parts.front());
  if (!schedule)
    return badPart(parts.front());
  Candidate candidate;
  candidate.schedule = *schedule;
  for (llvm::StringRef part : llvm::drop_begin(parts)) {
    auto [key, value] = part.split('=');
    if (!setPart(candidate, key, value))
      return badPart(part);
  }
  return candidate;
}

std::optional<double> JudgedCandidate::error() const {
  if (!measuredUs || *measuredUs <= 0)
    return std::nullopt;
  return (predictedUs - *measuredUs) / *measuredUs;
}

double ScheduleChoice::meanError() const {
  double sum = 0;
  int64_t count = 0;
  for (const JudgedCandidate &each : candidates)
    if (std::optional<double> error = each.error()) {
      sum += std::abs(*error);
      ++count;
    }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

std::string explain(const ScheduleChoice &choice, size_t most) {
  std::string text = fmt::format("braid: auto: {} candidates for @{} on {} ranks; microseconds\n"
                                 "   predicted    measured   error  candidate\n",
                                 choice.candidates.size(), choice.fusion, choice.ranks);
  for (const JudgedCandidate &each : llvm::ArrayRef(choice.candidates).take_front(most)) {
    const std::optional<double> error = each.error();
    text += fmt::format("{:>12.1f}{:>12}{:>8}  {}{}\n", each.predictedUs,
                        error ? fmt::format("{:.1f}", *each.measuredUs) : "-",
                        error ? fmt::format("{:+.0f} %", 100 * *error) : "", each.candidate.str(),
                        &each == &choice.candidates.front() ? "  <-" : "");
  }
  text += fmt::format("  chosen: {}: {}\n  model: {}\n", choice.best().str(), choice.reason,
                      choice.source);
  if (choice.meanError() > 0)
    text += fmt::format("  predictions were off by {:.0f} % on average where measured\n",
                        100 * choice.meanError());
  return text;
}

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
