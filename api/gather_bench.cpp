//===- api/gather_bench.cpp - times gather+matmul beside its limits ---------------------------===//

#include "api/gather_bench.h"

#include "api/plans.h"
#include "runtime/executor.h"
#include "runtime/numeric.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;

/// The operation itself, for schedules to be chosen from.
std::string gatherMatmul(const GatherShape &s, DType dtype, int64_t ranks) {
  return fmt::format("fusion @gather_matmul(D = {0}) {{\n"
                     "  mesh [0 .. D)\n"
                     "  %A = input {1}[DIDx{{D}}, {2}, {3}]\n"
                     "  %B = input {1}[{3}, {4}]\n"
                     "  %C = matmul %A, %B : {1}[Stream{{D}}, {2}, {4}]\n"
                     "  output %C\n}}\n",
                     ranks, name(dtype).str(), s.m / ranks, s.k, s.n);
}

/// What is left if the gather cost nothing.
std::string productAlone(const GatherShape &s, DType dtype, int64_t ranks) {
  return fmt::format("program @product_alone mesh [0 .. {0})\n"
                     "    (%A: {1}[{2}, {3}], %B: {1}[{3}, {4}]) -> (%C: {1}[{2}, {4}]) {{\n"
                     "  matmul %C, %A, %B\n}}\n",
                     ranks, name(dtype).str(), s.m, s.k, s.n);
}

/// What is left if the product cost nothing, by one group on one stream.
std::string gatherTogether(const GatherShape &s, DType dtype, int64_t ranks, Protocol protocol) {
  const bool pulls = protocol == Protocol::Get;
  std::string type = fmt::format("{}[{}, {}, {}]", name(dtype).str(), ranks, s.m / ranks, s.k);
  std::string block = fmt::format("{}[1, {}, {}]", name(dtype).str(), s.m / ranks, s.k);
  std::string text = fmt::format("program @gather_together mesh [0 .. {0}) (%A: {1}) -> () {{\n"
                                 "  %all = allocate symmetric {2}\n"
                                 "  %h = share_mem_handles {3} %all\n"
                                 "  %mine = select %all[rank]\n"
                                 "  %own = select %A[0]\n",
                                 ranks, block, type, name(protocol).str());
  for (int64_t i = 1; i < ranks; ++i)
    text += fmt::format("  %block_{0} = select %all[(rank + {0}) mod {1}]\n", i, ranks);
  if (pulls)
    text += "  set %mine, %own\n";
  text += ranks > 1 ? "  group {\n" : "";
  for (int64_t i = 1; i < ranks; ++i)
    text += fmt::format("    %s_{0} = p2p send %{2} to (rank - {0}) mod {1} via %h\n"
                        "    %r_{0} = p2p recv %block_{0} from (rank + {0}) mod {1} via %h\n",
                        i, ranks, pulls ? "mine" : "own");
  text += ranks > 1 ? "  }\n" : "";
  if (!pulls)
    text += "  set %mine, %own\n";
  for (int64_t i = 1; i < ranks; ++i)
    text += fmt::format("  wait %r_{0}\n  wait %s_{0}\n", i);
  return text + "}\n";
}

/// What is left if the product cost nothing: every rank's block in every rank's memory, a stream
/// for each peer. `put`: the owner pushes.
std::string gatherAlone(const GatherShape &s, DType dtype, int64_t ranks, Protocol protocol) {
  std::string type = fmt::format("{}[{}, {}, {}]", name(dtype).str(), ranks, s.m / ranks, s.k);
  std::string block = fmt::format("{}[1, {}, {}]", name(dtype).str(), s.m / ranks, s.k);
  std::string text = fmt::format("program @gather_alone mesh [0 .. {0}) (%A: {1}) -> () {{\n"
                                 "  %all = allocate symmetric {2}\n"
                                 "  %h = share_mem_handles {3} %all\n"
                                 "  %main = get_current_stream\n"
                                 "  %mine = select %all[rank]\n"
                                 "  %own = select %A[0]\n"
                                 "  set %mine, %own\n"
                                 "  for %j in 1 .. {0} {{\n"
                                 "    set_current_stream stream(%j)\n"
                                 "    synchronize %main\n"
                                 "  }}\n"
                                 "  for %i in 1 .. {0} {{\n"
                                 "    set_current_stream stream(%i)\n",
                                 ranks, block, type, name(protocol).str());
  const char *send = "    %s = p2p send %mine to (rank - %i) mod {0} via %h\n";
  const char *receive = "    %r = p2p recv %block from (rank + %i) mod {0} via %h\n";
  text += fmt::format("    %block = select %all[(rank + %i) mod {0}]\n", ranks);
  for (const char *line :
       {protocol == Protocol::Get ? send : receive, protocol == Protocol::Get ? receive : send})
    text += fmt::format(fmt::runtime(line), ranks);
  return text + fmt::format("    wait %r\n    wait %s\n  }}\n"
                            "  set_current_stream %main\n"
                            "  for %j in 1 .. {} {{\n    synchronize stream(%j)\n  }}\n}}\n",
                            ranks);
}

Status badRow(const std::string &row, const std::string &expected, const std::string &got) {
  return Status(StatusCode::BadInput,
                fmt::format("--impl {}: expected {}, got '{}'", row, expected, got));
}

Status badOption(const GatherRow &row, llvm::StringRef key, llvm::StringRef value) {
  const char *expected = llvm::StringSwitch<const char *>(key)
                             .Case("protocol", "get or put")
                             .Cases("chunks", "taper", "streams", "a number from 1 on")
                             .Case("transfers", "each or shared")
                             .Case("copies", "engine or kernel")
                             .Case("signals", "memory or kernel")
                             .Default(nullptr);
  if (expected)
    return badRow(row.name, expected, value.str());
  return badRow(row.name, "protocol, chunks, taper, streams, transfers, copies or signals",
                key.str());
}

Status setOption(GatherRow &row, int64_t ranks, llvm::StringRef key, llvm::StringRef value) {
  CompileOptions &options = row.options;
  int64_t number = 0;
  bool isNumber = !value.getAsInteger(10, number) && number >= 1;
  if (key == "protocol" && (value == "get" || value == "put"))
    options.protocol = value == "get" ? Protocol::Get : Protocol::Put;
  else if (key == "chunks" && isNumber)
    options.chunks = number * ranks;
  else if (key == "streams" && isNumber)
    options.streams = number;
  else if (key == "taper" && isNumber)
    options.taper = number;
  else if (key == "transfers" && transfersFromName(value))
    options.transfers = transfersFromName(value);
  else if (key == "copies" && copyByFromName(value))
    row.means.copies = *copyByFromName(value);
  else if (key == "signals" && signalByFromName(value))
    row.means.signals = *signalByFromName(value);
  else
    return badOption(row, key, value);
  return Status::ok();
}

/// A rank's tensors: random inputs in [-1, 1], outputs as they come.
class BenchArguments {
public:
  static Result<BenchArguments> make(const Plan &plan, Device &device);
  llvm::ArrayRef<const void *> inputs() const { return inputs_; }
  llvm::MutableArrayRef<void *> outputs() { return outputs_; }

private:
  std::vector<const void *> inputs_;
  std::vector<void *> outputs_;
};

/// Values of every type that is used, each random; long enough not to repeat within a cache line's
/// reach, short enough to be made in a moment.
std::vector<char> randomTile(DType dtype, uint64_t seed) {
  constexpr size_t kElements = size_t(1) << 20;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<char> tile(kElements * static_cast<size_t>(sizeOf(dtype)));
  for (size_t i = 0; i < kElements; ++i) {
    float value = uniform(random);
    withElement(dtype, [&](auto element) {
      element = narrow<decltype(element)>(value);
      std::memcpy(tile.data() + i * sizeof element, &element, sizeof element);
    });
  }
  return tile;
}

Result<BenchArguments> BenchArguments::make(const Plan &plan, Device &device) {
  BenchArguments arguments;
  DType dtype = plan.matmuls.empty() ? DType::BF16 : plan.matmuls.front().dtype;
  std::vector<char> tile = randomTile(dtype, 1 + static_cast<uint64_t>(plan.rank));
  for (uint32_t buffer : plan.inputs) {
    int64_t bytes = plan.buffers[buffer].bytes;
    Result<void *> memory = device.allocate(ArenaKind::Private, bytes);
    if (!memory)
      return memory.status();
    for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(tile.size()))
      device.copy(0, {}, static_cast<char *>(*memory) + at, tile.data(),
                  std::min<int64_t>(bytes - at, static_cast<int64_t>(tile.size())));
    arguments.inputs_.push_back(*memory);
  }
  for (uint32_t buffer : plan.outputs) {
    Result<void *> memory = device.allocate(ArenaKind::Private, plan.buffers[buffer].bytes);
    if (!memory)
      return memory.status();
    arguments.outputs_.push_back(*memory);
  }
  if (Status status = device.synchronize(); !status.isOk())
    return status;
  return arguments;
}

/// Each rank's times, iteration by iteration, as text for the others.
std::string encodeTimes(const std::vector<double> &times) {
  std::string text;
  for (double time : times)
    text += fmt::format("{:.3f} ", time);
  return text;
}

Status takeMaxima(const std::string &text, std::vector<double> &maxima) {
  llvm::SmallVector<llvm::StringRef, 64> fields;
  llvm::StringRef(text).split(fields, ' ', -1, /*KeepEmpty=*/false);
  if (fields.size() != maxima.size())
    return Status(StatusCode::BadInput, "the ranks timed different numbers of iterations");
  for (size_t i = 0; i < fields.size(); ++i) {
    double value = 0;
    if (fields[i].getAsDouble(value))
      return Status(StatusCode::BadInput, "expected a time, got '" + fields[i].str() + "'");
    maxima[i] = std::max(maxima[i], value);
  }
  return Status::ok();
}

/// One run, from the barrier on.
Result<double> timeOnce(const GatherRow &row, Prepared &prepared, BenchArguments &arguments,
                        Device &device, const std::function<bool()> &barrier) {
  if (!barrier()) {
    Status status = device.synchronize();
    return status.isOk() ? Status(StatusCode::PeerFailed, "the job has failed") : status;
  }
  Clock::time_point start = Clock::now();
  if (row.isGraphed)
    prepared.replay();
  else
    prepared.run(arguments.inputs(), arguments.outputs());
  if (Status status = device.synchronize(); !status.isOk())
    return status;
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

} // namespace

Result<GatherRow> makeGatherRow(const std::string &name, const GatherShape &shape, DType dtype,
                                int64_t ranks, bool isGraphed) {
  if (shape.m % ranks != 0)
    return Status(StatusCode::BadInput,
                  fmt::format("expected -m to be a multiple of {} ranks, got {}", ranks, shape.m));
  GatherRow row;
  row.name = name;
  row.isGraphed = isGraphed;
  row.options.ranks = ranks;
  llvm::SmallVector<llvm::StringRef, 4> parts;
  llvm::StringRef(name).split(parts, ';');
  for (llvm::StringRef part : llvm::ArrayRef<llvm::StringRef>(parts).drop_front()) {
    auto [key, value] = part.split('=');
    if (Status status = setOption(row, ranks, key, value); !status.isOk())
      return status;
  }
  llvm::StringRef what = parts.front();
  if (what == "matmul") {
    row.text = productAlone(shape, dtype, ranks);
  } else if (what == "gather") {
    const Protocol protocol = row.options.protocol.value_or(Protocol::Get);
    row.text = row.options.transfers == Transfers::Shared
                   ? gatherTogether(shape, dtype, ranks, protocol)
                   : gatherAlone(shape, dtype, ranks, protocol);
  } else if (std::optional<Schedule> schedule = scheduleFromName(what)) {
    row.text = gatherMatmul(shape, dtype, ranks);
    row.options.schedule = schedule;
    return row;
  } else {
    return badRow(name, "matmul, gather, none, pairwise, hop, burst or fused", what.str());
  }
  row.options = {};
  row.options.ranks = ranks;
  return row;
}

Result<std::vector<double>> GatherTimer::time(const GatherRow &row, const BenchTiming &timing) {
  std::unique_ptr<Source> source = parseSource(row.name, row.text);
  Result<Compiled> compiled = compile(*source, row.options);
  if (!compiled)
    return compiled.status().annotated(row.name + source->diags.str());
  Result<std::vector<Plan>> plans = makePlans(*compiled);
  if (!plans)
    return plans.status();
  plans_.push_back(std::move(*plans));
  cluster_.setPlans(plans_.back());
  const int64_t rank = cluster_.firstHosted();
  const Plan &plan = plans_.back()[static_cast<size_t>(rank)];
  Device &device = cluster_.device(rank);
  Result<std::unique_ptr<Prepared>> prepared =
      prepare(plan, device, cluster_.transport(rank), row.means);
  if (!prepared)
    return prepared.status();
  Result<BenchArguments> arguments = BenchArguments::make(plan, device);
  if (!arguments)
    return arguments.status();
  if (row.isGraphed)
    if (Status status = (*prepared)->capture(arguments->inputs(), arguments->outputs());
        !status.isOk())
      return status;
  std::vector<double> mine;
  for (int64_t i = 0; i < timing.warmUp + timing.iterations; ++i) {
    Result<double> time = timeOnce(row, **prepared, *arguments, device, barrier_);
    if (!time)
      return time.status();
    if (i >= timing.warmUp)
      mine.push_back(*time);
  }
  return maximaOverRanks(mine);
}

Result<std::vector<double>> GatherTimer::maximaOverRanks(const std::vector<double> &mine) {
  Transport &transport = cluster_.transport(cluster_.firstHosted());
  Result<std::vector<std::string>> all = transport.allGather(encodeTimes(mine));
  if (!all)
    return all.status();
  std::vector<double> maxima(mine.size(), 0);
  for (const std::string &each : *all)
    if (Status status = takeMaxima(each, maxima); !status.isOk())
      return status;
  return maxima;
}

Spread spreadOf(std::vector<double> samples) {
  if (samples.empty())
    return {};
  std::sort(samples.begin(), samples.end());
  auto at = [&](double quantile) {
    return samples[static_cast<size_t>(quantile * static_cast<double>(samples.size() - 1) + 0.5)];
  };
  return {at(0.5), at(0.1), at(0.9)};
}

} // namespace braid
