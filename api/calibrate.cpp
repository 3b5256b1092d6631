//===- api/calibrate.cpp - measures what a cost model holds -----------------------------------===//

#include "api/calibrate.h"

#include "api/plans.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace braid {
namespace {

constexpr int kChain = 8;
/// Shorter than this is what a clock cannot tell from nothing.
constexpr double kLeastUs = 0.01;

// -- The programs. --

Result<std::vector<Plan>> plansOf(const std::string &text) {
  std::unique_ptr<Source> source = parseSource("calibration", text);
  Result<Compiled> compiled = compile(*source, {});
  Result<std::vector<Plan>> plans = compiled ? makePlans(*compiled) : compiled.status();
  if (!plans)
    return plans.status().annotated("calibration: " + source->diags.str());
  return plans;
}

/// `copies` of `bytes` within the rank, one after the other.
std::string localCopies(int64_t ranks, int64_t bytes, int copies) {
  std::string text = fmt::format("program @local mesh [0 .. {0}) (%A: bf16[{1}]) -> () {{\n"
                                 "  %x = allocate device bf16[{1}]\n",
                                 ranks, bytes / 2);
  for (int i = 0; i < copies; ++i)
    text += "  set %x, %A\n";
  return text + "}\n";
}

/// Small copies on two streams in turn, each waiting for the one before.
std::string eventChain(int64_t ranks, int64_t bytes, int turns) {
  std::string text = fmt::format("program @events mesh [0 .. {0}) (%A: bf16[{1}]) -> () {{\n"
                                 "  %x = allocate device bf16[{1}]\n"
                                 "  %main = get_current_stream\n",
                                 ranks, bytes / 2);
  for (int i = 0; i < turns; ++i)
    text += "  set %x, %A\n  set_current_stream stream(1)\n  synchronize %main\n"
            "  set %x, %A\n  set_current_stream %main\n  synchronize stream(1)\n";
  return text + "}\n";
}

std::string transfer(int64_t ranks, Protocol protocol, int number) {
  std::string send =
      fmt::format("  %s{0} = p2p send %mine to (rank - 1) mod {1} via %h\n", number, ranks);
  std::string receive =
      fmt::format("  %r{0} = p2p recv %theirs from (rank + 1) mod {1} via %h\n", number, ranks);
  return protocol == Protocol::Get ? send + receive : receive + send;
}

std::string transferHead(int64_t ranks, Protocol protocol, int64_t bytes) {
  return fmt::format("program @transfers mesh [0 .. {0}) () -> () {{\n"
                     "  %all = allocate symmetric bf16[2, {1}]\n"
                     "  %h = share_mem_handles {2} %all\n"
                     "  %mine = select %all[0]\n  %theirs = select %all[1]\n",
                     ranks, bytes / 2, name(protocol).str());
}

/// Every rank's block to its neighbour, `turns` times, each after the one before: on two streams in
/// turn, as the transfers of a schedule are on streams of their own.
std::string transferChain(int64_t ranks, Protocol protocol, int64_t bytes, int turns) {
  std::string text = transferHead(ranks, protocol, bytes) + "  %main = get_current_stream\n";
  for (int i = 0; i < turns; ++i) {
    text += i % 2 == 0 ? "  set_current_stream stream(1)\n  synchronize %main\n"
                       : "  set_current_stream %main\n  synchronize stream(1)\n";
    text += transfer(ranks, protocol, i) + fmt::format("  wait %r{0}\n  wait %s{0}\n", i);
  }
  return text + "  set_current_stream %main\n  synchronize stream(1)\n}\n";
}

/// The same, all posted together: signals stand beside signals, and awaits beside awaits.
std::string transferFlood(int64_t ranks, int64_t bytes, int turns) {
  std::string text = transferHead(ranks, Protocol::Get, bytes) + "  group {\n", waits;
  for (int i = 0; i < turns; ++i) {
    text += transfer(ranks, Protocol::Get, i);
    waits += fmt::format("  wait %r{0}\n  wait %s{0}\n", i);
  }
  return text + "  }\n" + waits + "}\n";
}

/// A block from, or to, every peer at once, on a stream for each.
std::string fan(int64_t ranks, Protocol protocol, int64_t bytes) {
  std::string send = fmt::format("    %s = p2p send %mine to (rank - %i) mod {} via %h\n", ranks);
  std::string receive =
      fmt::format("    %r = p2p recv %block from (rank + %i) mod {} via %h\n", ranks);
  return fmt::format("program @fan mesh [0 .. {0}) () -> () {{\n"
                     "  %all = allocate symmetric bf16[{0}, {1}]\n"
                     "  %h = share_mem_handles {2} %all\n"
                     "  %main = get_current_stream\n"
                     "  %mine = select %all[rank]\n"
                     "  for %i in 1 .. {0} {{\n"
                     "    set_current_stream stream(%i)\n"
                     "    synchronize %main\n"
                     "    %block = select %all[(rank + %i) mod {0}]\n"
                     "{3}{4}    wait %r\n    wait %s\n  }}\n"
                     "  set_current_stream %main\n"
                     "  for %i in 1 .. {0} {{\n    synchronize stream(%i)\n  }}\n}}\n",
                     ranks, bytes / 2, name(protocol).str(),
                     protocol == Protocol::Get ? send : receive,
                     protocol == Protocol::Get ? receive : send);
}

/// `count` products of one shape, dealt out to `streams`.
std::string products(int64_t ranks, const PlanMatmul &shape, int count, int streams) {
  const std::string type = name(shape.dtype).str();
  std::string text =
      fmt::format("program @products mesh [0 .. {0}) (%A: {1}[{2}, {3}, {5}], %B: {1}[{6}]) ->\n"
                  "    (%C: {1}[{2}, {3}, {4}]) {{\n  %main = get_current_stream\n",
                  ranks, type, count, shape.m, shape.n, shape.k,
                  shape.transposeB ? fmt::format("{}, {}", shape.n, shape.k)
                                   : fmt::format("{}, {}", shape.k, shape.n));
  for (int s = 1; s < streams; ++s)
    text += fmt::format("  set_current_stream stream({})\n  synchronize %main\n", s);
  for (int i = 0; i < count; ++i) {
    if (streams > 1)
      text += i % streams == 0 ? std::string("  set_current_stream %main\n")
                               : fmt::format("  set_current_stream stream({})\n", i % streams);
    text += fmt::format("  %a{0} = select %A[{0}]\n  %c{0} = select %C[{0}]\n"
                        "  {1} %c{0}, %a{0}, %B\n",
                        i, shape.transposeB ? "linear" : "matmul");
  }
  if (streams > 1)
    text += "  set_current_stream %main\n";
  for (int s = 1; s < streams; ++s)
    text += fmt::format("  synchronize stream({})\n", s);
  return text + "}\n";
}

/// What is left of transfers without their copies: the signals.
void dropCopies(std::vector<Plan> &plans) {
  for (Plan &plan : plans)
    llvm::erase_if(plan.commands, [](const Command &c) { return c.kind == CommandKind::Copy; });
}

// -- What follows from times. --

double positive(double us) { return std::max(us, kLeastUs); }

class Calibration {
public:
  Calibration(PlanTimer &timer, const CalibrationOptions &options)
      : timer_(timer), options_(options) {}
  Result<CostModel> run();

private:
  /// Times a program in every way, under a name, by the means that are being looked at.
  Status measure(const std::string &name, const std::string &text, bool hasCopies = true);
  Status measureAll();
  OperationCosts deduce(size_t way) const;
  void deduceIssue(OperationCosts &costs, size_t way) const;
  void deduceSignals(OperationCosts &costs, size_t way) const;
  CopyCost deduceCopy(const OperationCosts &costs, const std::string &name, size_t way) const;
  double us(const std::string &name, size_t way) const { return times_.at(name)[way].us; }
  /// The host's time, where it issues command by command.
  double issue(const std::string &name, size_t way) const {
    return options_.ways[way] == Issuing::Eager ? times_.at(name)[way].issueUs : 0;
  }

  PlanTimer &timer_;
  const CalibrationOptions &options_;
  TransferMeans means_;
  std::map<std::string, std::vector<RunTime>> times_; ///< by means_
};

Status Calibration::measure(const std::string &name, const std::string &text, bool hasCopies) {
  Result<std::vector<Plan>> plans = plansOf(text);
  if (!plans)
    return plans.status();
  if (!hasCopies)
    dropCopies(*plans);
  Result<std::vector<RunTime>> times =
      timer_.time(std::move(*plans), options_.ways, options_.effort, means_);
  if (!times)
    return times.status().annotated("calibrating by " + name);
  times_[name] = std::move(*times);
  return Status::ok();
}

Status Calibration::measureAll() {
  const int64_t ranks = timer_.ranks(), small = options_.smallBytes, large = options_.largeBytes;
  struct Trial {
    std::string name, text;
    bool hasCopies = true;
  };
  PlanMatmul tiny{DType::BF16, 64, 64, 64, false, {}, {}, {}, {}};
  std::vector<Trial> trials = {{"1 copy", localCopies(ranks, small, 1)},
                               {"copies", localCopies(ranks, small, 1 + kChain)},
                               {"large copy", localCopies(ranks, large, 1)},
                               {"events", eventChain(ranks, small, kChain)},
                               {"products", products(ranks, tiny, kChain, 1)}};
  if (ranks > 1) {
    trials.push_back({"turns", transferChain(ranks, Protocol::Get, 2, kChain), false});
    trials.push_back({"flood", transferFlood(ranks, 2, 2 * kChain), false});
    for (Protocol protocol : {Protocol::Get, Protocol::Put}) {
      const std::string way = name(protocol).str();
      trials.push_back({way + " small", transferChain(ranks, protocol, small, kChain)});
      trials.push_back({way + " large", transferChain(ranks, protocol, large, 2)});
      trials.push_back({way + " all", fan(ranks, protocol, large)});
    }
  }
  for (const Trial &trial : trials)
    if (Status status = measure(trial.name, trial.text, trial.hasCopies); !status.isOk())
      return status;
  return Status::ok();
}

void Calibration::deduceIssue(OperationCosts &costs, size_t way) const {
  costs.issueCopyUs = issue("copies", way) / (1 + kChain);
  costs.issueMatmulUs = issue("products", way) / kChain;
  const double events = issue("events", way) - 2 * kChain * costs.issueCopyUs;
  costs.issueEventUs =
      std::max(events / (4 * kChain), 0.0); // a record and a wait in each half turn
  if (timer_.ranks() > 1)
    costs.issueSignalUs =
        std::max((issue("turns", way) - 2 * kChain * costs.issueEventUs) / (4 * kChain), 0.0);
}

/// A turn follows on an event, and has two hops: "you may read", "I have read".
void Calibration::deduceSignals(OperationCosts &costs, size_t way) const {
  const double turn = (us("turns", way) - costs.runUs) / kChain - costs.eventUs;
  const double hop = positive(turn / 2);
  const double held =
      positive((us("flood", way) - costs.runUs) / (4 * kChain)); // a signal, an await
  costs.signalUs = costs.awaitUs = std::min(held / 2, hop / 2);
  costs.flightUs = hop - costs.signalUs - costs.awaitUs;
}

/// The line through the small and the large copy of a chain of turns.
CopyCost Calibration::deduceCopy(const OperationCosts &costs, const std::string &name,
                                 size_t way) const {
  const double hops = 2 * (costs.signalUs + costs.flightUs + costs.awaitUs);
  const double turn = hops + costs.eventUs; // besides the copy
  const double small = positive((us(name + " small", way) - costs.runUs) / kChain - turn);
  const double large = positive((us(name + " large", way) - costs.runUs) / 2 - turn);
  const double bytes = static_cast<double>(options_.largeBytes - options_.smallBytes);
  CopyCost cost;
  cost.bytesPerUs = bytes / positive(large - small);
  cost.fixedUs = std::max(small - static_cast<double>(options_.smallBytes) / cost.bytesPerUs, 0.0);
  const double others = costs.runUs + 2 * costs.eventUs + hops + cost.fixedUs;
  const double all = static_cast<double>(options_.largeBytes * (timer_.ranks() - 1));
  cost.sharedBytesPerUs = all / positive(us(name + " all", way) - others);
  return cost;
}

OperationCosts Calibration::deduce(size_t way) const {
  OperationCosts costs;
  costs.issuing = options_.ways[way];
  costs.means = means_;
  deduceIssue(costs, way);
  const double small = positive((us("copies", way) - us("1 copy", way)) / kChain);
  const double bytes = static_cast<double>(options_.largeBytes - options_.smallBytes);
  costs.local.bytesPerUs = bytes / positive(us("large copy", way) - us("1 copy", way));
  costs.local.sharedBytesPerUs = costs.local.bytesPerUs;
  costs.local.fixedUs =
      std::max(small - static_cast<double>(options_.smallBytes) / costs.local.bytesPerUs, 0.0);
  costs.runUs = std::max(us("1 copy", way) - small - costs.issueCopyUs, 0.0);
  costs.eventUs = std::max((us("events", way) - costs.runUs) / (2 * kChain) - small, 0.0);
  costs.pull = costs.push = costs.local;
  if (timer_.ranks() == 1)
    return costs;
  deduceSignals(costs, way);
  costs.pull = deduceCopy(costs, "get", way);
  costs.push = deduceCopy(costs, "put", way);
  return costs;
}

Result<CostModel> Calibration::run() {
  CostModel model;
  model.machine = timer_.device().description();
  model.ranks = timer_.ranks();
  for (TransferMeans means : options_.means) {
    means_ = means;
    if (Status status = measureAll(); !status.isOk())
      return status.annotated(str(means));
    for (size_t way = 0; way < options_.ways.size(); ++way)
      model.operations.push_back(deduce(way));
  }
  return model;
}

// -- Products. --

/// Of products that differ in their rows only: the most rows, then each at most half of those
/// before, and the fewest unless they are about as many. What lies between is on a line.
std::vector<PlanMatmul> fewRows(std::vector<PlanMatmul> shapes) {
  llvm::sort(shapes, [](const PlanMatmul &a, const PlanMatmul &b) { return a.m > b.m; });
  std::vector<PlanMatmul> kept;
  for (const PlanMatmul &shape : shapes)
    if (kept.empty() || shape.m <= kept.back().m / 2)
      kept.push_back(shape);
  if (4 * shapes.back().m < 3 * kept.back().m)
    kept.push_back(shapes.back());
  return kept;
}

std::vector<PlanMatmul> shapesToMeasure(const CostModel &model, llvm::ArrayRef<PlanMatmul> shapes) {
  using Column = std::tuple<DType, bool, int64_t, int64_t>;
  std::map<Column, std::vector<PlanMatmul>> columns;
  for (const PlanMatmul &shape : shapes)
    if (shape.m > 0 && shape.n > 0)
      columns[{shape.dtype, shape.transposeB, shape.n, shape.k}].push_back(shape);
  std::vector<PlanMatmul> wanted;
  for (auto &[column, all] : columns)
    for (const PlanMatmul &shape : fewRows(std::move(all)))
      if (!model.find(shape))
        wanted.push_back(shape);
  return wanted;
}

/// Few enough that the largest products take no longer than they have to.
int chainOf(const PlanMatmul &shape) {
  constexpr double kLarge = 3e11;
  const double flops = 2.0 * double(shape.m) * double(shape.n) * double(shape.k);
  return flops > kLarge ? 2 : 4;
}

Result<RunTime> timeProducts(PlanTimer &timer, const PlanMatmul &shape, int count, int streams,
                             Issuing issuing, const CalibrationOptions &options) {
  Result<std::vector<Plan>> plans = plansOf(products(timer.ranks(), shape, count, streams));
  if (!plans)
    return plans.status();
  Result<std::vector<RunTime>> times =
      timer.time(std::move(*plans), {issuing}, options.effort, options.means.front());
  if (!times)
    return times.status().annotated(
        fmt::format("timing a product of {} x {} x {}", shape.m, shape.n, shape.k));
  return times->front();
}

Result<ProductCost> measureProduct(const CostModel &model, const PlanMatmul &shape,
                                   PlanTimer &timer, const CalibrationOptions &options) {
  const Issuing issuing = options.ways.back();
  const OperationCosts &costs = *model.find(issuing, options.means.front());
  const int count = chainOf(shape);
  Result<RunTime> one = timeProducts(timer, shape, count, 1, issuing, options);
  if (!one)
    return one.status();
  Result<RunTime> two = timeProducts(timer, shape, count, 2, issuing, options);
  if (!two)
    return two.status();
  const double all = positive(one->us - costs.runUs - costs.issueMatmulUs);
  const double dealt = two->us - costs.runUs - costs.issueMatmulUs - 2 * costs.eventUs;
  return ProductCost{shape.dtype,
                     shape.transposeB,
                     shape.m,
                     shape.n,
                     shape.k,
                     all / count,
                     std::clamp(dealt / all, 0.5, 1.0)};
}

} // namespace

Result<CostModel> calibrate(PlanTimer &timer, const CalibrationOptions &options) {
  return Calibration(timer, options).run();
}

Result<bool> measureProducts(CostModel &model, llvm::ArrayRef<PlanMatmul> shapes, PlanTimer &timer,
                             const CalibrationOptions &options) {
  const std::vector<PlanMatmul> wanted = shapesToMeasure(model, shapes);
  for (const PlanMatmul &shape : wanted) {
    Result<ProductCost> cost = measureProduct(model, shape, timer, options);
    if (!cost)
      return cost.status();
    model.add(*cost);
  }
  return !wanted.empty();
}

} // namespace braid
