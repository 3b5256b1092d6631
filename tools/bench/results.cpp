//===- tools/bench/results.cpp - all that was measured, and its files -------------------------===//

#include "tools/bench/results.h"

#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/host_name.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <filesystem>

namespace braid::tools {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostBytes = size_t(1) << 30; ///< of a file that is resumed

/// As PyTorch, and so DDLB, calls them.
std::string torchName(llvm::StringRef dtype) {
  return llvm::StringSwitch<std::string>(dtype)
      .Case("bf16", "bfloat16")
      .Case("f16", "float16")
      .Case("f32", "float32")
      .Case("f64", "float64")
      .Default(dtype.str());
}

std::string quoted(std::string text) {
  std::replace(text.begin(), text.end(), '"', '\'');
  return '"' + text + '"';
}

/// Mean and deviation of what a run of so many floating point operations gives, from microseconds.
struct Moments {
  double mean = 0, deviation = 0;
  template <typename Value> static Moments of(llvm::ArrayRef<double> samples, Value value) {
    Moments moments;
    for (double sample : samples)
      moments.mean += value(sample) / double(samples.size());
    for (double sample : samples)
      moments.deviation += std::pow(value(sample) - moments.mean, 2) / double(samples.size());
    moments.deviation = std::sqrt(moments.deviation);
    return moments;
  }
};

/// What DDLB puts into its columns of times and throughput; milliseconds and TFLOP/s.
std::string timesOf(const BenchRow &row) {
  const std::vector<double> all = row.samples();
  if (all.empty())
    return ",,,";
  Moments time = Moments::of(all, [](double us) { return us * 1e-3; });
  return fmt::format("{:.6f},{:.6f},{:.6f},{:.6f}", time.mean, time.deviation,
                     *std::min_element(all.begin(), all.end()) * 1e-3,
                     *std::max_element(all.begin(), all.end()) * 1e-3);
}

std::string throughputOf(const BenchRow &row, double flops) {
  if (!row.isTimed() || row.kind == RowKind::Transfers)
    return ",";
  constexpr double kLeastUs = 1e-3; // no clock is finer
  Moments rate =
      Moments::of(row.samples(), [&](double us) { return flops / std::max(us, kLeastUs) * 1e-6; });
  return fmt::format("{:.3f},{:.3f}", rate.mean, rate.deviation);
}

std::string extentsOf(const BenchShape &shape) {
  return shape == BenchShape() ? ",," : fmt::format("{},{},{}", shape.m, shape.n, shape.k);
}

std::string optionsOf(const BenchRow &row) {
  std::string options =
      namesStages(row.name) ? row.name : llvm::StringRef(row.name).split(';').second.str();
  std::replace(options.begin(), options.end(), ';', ',');
  return options + (options.empty() ? "" : ",") + "graph=" + (row.isIssuedAsGraph() ? "yes" : "no");
}

std::string numberOr(std::optional<double> number) {
  return number ? fmt::format("{:.4f}", *number) : "";
}

constexpr const char *kCsvHeader =
    "implementation,mean_time (ms),std_time,min_time,max_time,m,n,k,dtype,Throughput (TFLOPS),"
    "Throughput std (TFLOPS),world_size,hostname,option,valid,"
    "graph,backend,median_us,p10_us,p90_us,E,speed_up,hidden,failure,burst_median_us\n";

Json orNull(double us) { return us > 0 ? Json(us) : Json(); }

/// What is asked of lowering, and of a run.
std::string givenOf(const SourceFlags &flags) {
  CompileOptions options;
  (void)flags.toOptions(options); // which has been read before
  return options.schedule.str();
}

Json burstOrNull(const BenchRow *row) {
  const std::optional<double> us = row ? row->burstTime() : std::nullopt;
  return us ? Json(*us) : Json();
}

} // namespace

std::string timeNow() {
  std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

//===- What is there --------------------------------------------------------------------------===//

Json BenchResults::question() const {
  Json question = {{"operation", flags_.operation.name},
                   {"dtype", flags_.dtype},
                   {"ranks", flags_.ranks},
                   {"backend", flags_.backend},
                   {"reproducible", flags_.source.reproducible}};
  if (!flags_.operation.fingerprint.empty()) {
    // Rows take from the flags what the program of `given` may not show.
    question["fingerprint"] = flags_.operation.fingerprint;
    question["given"] = givenOf(flags_.source);
  }
  if (flags_.operation.hasPartials)
    question["partial"] = flags_.partial.empty() ? flags_.dtype : flags_.partial;
  return question;
}

Status BenchResults::resume() {
  if (!flags_.resumes)
    return Status::ok();
  if (!std::filesystem::exists(flags_.json))
    return Status::ok(); // the first piece
  std::string text = BRAID_TRY(readFile(flags_.json, kMostBytes));
  Result<ResultsFile> file = readResultsFile(text, question(), flags_.operation);
  if (!file)
    return file.status().annotated("--resume: " + flags_.json);
  rows_ = std::move(file->rows);
  isResumed_ = true;
  const Json &json = file->json;
  if (auto batches = json.find("batches"); batches != json.end() && batches->is_array())
    batches_ = *batches;
  if (auto device = json.find("device"); device != json.end() && device->is_string())
    device_ = device->get<std::string>();
  return Status::ok();
}

Status BenchResults::checkFiles() const {
  const Json known = about();
  for (const std::string &label : flags_.labels)
    if (const std::string name = label.substr(0, label.find('='));
        known.contains(name) || name == "rows")
      return badInput("expected --label with a name of its own, got '{}', which is one of OUT.json",
                      name);
  for (const std::string &path : {flags_.csv, flags_.json}) {
    if (!path.empty())
      BRAID_TRY(checkWritable(path));
  }
  return Status::ok();
}

Status BenchResults::setDevice(const std::string &device) {
  if (isResumed_ && device_ != device)
    return badInput("--resume: {}: expected results of \"{}\", got those of \"{}\"", flags_.json,
                    device, device_);
  device_ = device;
  return Status::ok();
}

bool BenchResults::has(const BenchRow &row) const {
  return llvm::any_of(rows_, [&](const BenchRow &there) {
    return there.isSameRow(row) && (there.isTimed() || !flags_.retriesFailed);
  });
}

void BenchResults::add(std::vector<BenchRow> rows, const BenchBatch &batch) {
  std::stable_partition(rows.begin(), rows.end(),
                        [](const BenchRow &row) { return !isTorchRow(row.name); });
  for (BenchRow &row : rows) {
    auto there = llvm::find_if(rows_, [&](const BenchRow &old) { return old.isSameRow(row); });
    if (there == rows_.end())
      rows_.push_back(std::move(row));
    else
      *there = std::move(row);
  }
  batches_.push_back(jsonOf(batch));
}

//===- Files ----------------------------------------------------------------------------------===//

/// With what its rows say together, for readers that do not want to know how that is found.
Json BenchResults::jsonOf(const BenchBatch &batch) const {
  ShapeSummary summary = ShapeSummary::of(rowsOf(batch.shape));
  return {
      {"m", batch.shape.m},
      {"n", batch.shape.n},
      {"k", batch.shape.k},
      {"date", batch.date},
      {"seconds", batch.seconds},
      {"rival", batch.rival},
      {"gpus_before", batch.gpusBefore},
      {"gpus_after", batch.gpusAfter},
      {"gemm_us", orNull(summary.gemm)},
      {"transfers_us", orNull(summary.transfers)},
      {"sequential_us", orNull(summary.sequential)},
      {"best_us", summary.best ? Json(summary.best->time()) : Json()},
      {"best_burst_us", burstOrNull(summary.best)},
      {"auto_us", summary.automatic ? Json(summary.automatic->time()) : Json()},
      {"auto_burst_us", burstOrNull(summary.automatic)},
      {"judged_by", summary.best ? Json(summary.isByBursts ? "bursts" : "single runs") : Json()},
      {"auto_is_close", summary.automatic ? Json(summary.isAutoClose()) : Json()},
      {"verdict", summary.verdict()},
      {"rival_verdict", summary.rivalVerdict()},
      {"settings", settings()},
      {"labels", labels()}};
}

/// How rows are timed now: a file that was resumed may have others from before.
Json BenchResults::settings() const {
  return {{"iterations", flags_.iterations},
          {"warm_up", flags_.warmUp},
          {"rounds", *flags_.rounds},
          {"bursts", flags_.bursts},
          {"row_ms", flags_.rowMs},
          {"warm_up_ms", flags_.warmUpMs ? Json(*flags_.warmUpMs) : Json("by size")},
          {"idle_gap_us", flags_.idleGapUs}};
}

Json BenchResults::labels() const {
  Json labels = Json::object();
  for (const std::string &label : flags_.labels)
    labels[label.substr(0, label.find('='))] = label.substr(label.find('=') + 1);
  return labels;
}

/// All but the labels and the rows.
Json BenchResults::about() const {
  Json json = question();
  json.update(settings());
  json.update({{"date", timeNow()},
               {"device", device_},
               {"host", hostName()},
               {"version", BRAID_VERSION},
               {"batches", batches_}});
  return json;
}

/// A row a line: samples are many.
std::string BenchResults::json() const {
  Json json = about();
  json.update(labels());
  const auto replace = Json::error_handler_t::replace;
  std::string text = json.dump(1, ' ', false, replace);
  text.erase(text.rfind('\n'));
  text += ",\n \"rows\": [";
  for (const BenchRow &row : rows_)
    text += (&row == rows_.data() ? "\n  " : ",\n  ") + toJson(row).dump(-1, ' ', false, replace);
  return text + "\n ]\n}\n";
}

std::string BenchResults::csvLine(const BenchRow &row, const ShapeSummary &summary) const {
  Spread spread = row.spread();
  std::string medians =
      row.isTimed() ? fmt::format("{:.3f},{:.3f},{:.3f}", row.time(), spread.low, spread.high)
                    : ",,";
  return fmt::format(
      "{},{},{},{},{},{},{},{},,{},{},{},{},{},{},{},{}\n", quoted(row.name), timesOf(row),
      extentsOf(row.shape), torchName(flags_.dtype),
      throughputOf(row, flags_.operation.flops(row.shape)), flags_.ranks, quoted(hostName()),
      quoted(optionsOf(row)), row.isIssuedAsGraph() ? "yes" : "no", flags_.backend, medians,
      numberOr(summary.efficiency(row)), numberOr(summary.speedUp(row)),
      numberOr(summary.hiddenShare(row)), quoted(row.failure), numberOr(row.burstTime()));
}

std::string BenchResults::csv() const {
  std::string text = kCsvHeader;
  for (const BenchRow &row : rows_)
    text += csvLine(row, ShapeSummary::of(rowsOf(row.shape)));
  return text;
}

Status BenchResults::write(bool isLast) const {
  auto isDue = [&](const std::string &path) {
    return !path.empty() && (isLast || isReplacedAsAWhole(path));
  };
  const Status ofJson = isDue(flags_.json) ? writeFile(flags_.json, json()) : Status::ok();
  const Status ofCsv = isDue(flags_.csv) ? writeFile(flags_.csv, csv()) : Status::ok();
  return ofJson.isOk() ? ofCsv : ofJson;
}

} // namespace braid::tools
