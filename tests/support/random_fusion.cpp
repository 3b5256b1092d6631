//===- tests/support/random_fusion.cpp - random fusions with options to lower them ------------===//

#include "tests/support/random_fusion.h"
#include "tests/support/configured.h"

#include "tests/support/check_text.h"
#include "tests/support/dice.h"

#include "tests/support/local_mesh.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <cctype>
#include <map>

namespace braid::test {
namespace {

/// A tensor that can be a first operand, with leading axis `lead` and a plain last axis of `k`.
struct Operand {
  std::string name, lead, middle;
  int64_t k;
  bool isGemm;
};

/// Writes a fusion node by node. All gathered operands have equal rows, so equal chunks fit.
class Writer {
public:
  Writer(Dice &dice, const RandomKinds &kinds)
      : dice_(dice), isWhole_(kinds.whole), hasHosts_(kinds.hosts) {
    ranks_ = kinds.hosts ? dice.pick<int64_t>({4, 4, 5, 6, 6, 8, 9})
                         : dice.pick<int64_t>({1, 2, 2, 3, 3, 4, 4, 5, 7, 8});
    rows_ = dice.pick<int64_t>({1, 2, 3, 5, 7, 8});
    heads_ = dice.chance(15) ? 2 : 0;
    dtype_ = dice.pick<std::string>({"bf16", "f16", "f32", "f64"});
    isLocal_ = dice.chance(15);
    steps_ = isLocal_ ? dice.pick<int64_t>({1, 2, 3, 6}) : ranks_;
    functions_ = kinds.functions;
    sums_ = kinds.sums ? dice.pick<int64_t>({0, 1, 1, 2}) : 0;
    const bool mayBeUneven = sums_ == 0 || (kinds.uneven && !isLocal_);
    if (mayBeUneven && dice.chance(35) && kinds.uneven)
      total_ = 1 + dice.below(steps_ * blockRows());
  }

  std::string write() {
    int64_t count = dice_.pick<int64_t>({1, 1, 1, 2, 2, 3});
    if (sums_ > 0)
      count -= 1;
    for (int64_t i = 0; i < count; ++i)
      addGemm();
    for (int64_t i = 0; i < sums_; ++i)
      addSum();
    std::string outputs = "%" + gemms_.back().name;
    for (size_t i = 0; i + 1 < gemms_.size(); ++i)
      if (dice_.chance(functions_ ? 40 : 70) || !isRead(gemms_[i].name))
        outputs += ", %" + gemms_[i].name; // nodes that no output needs would be removed
    if (functions_ && !inputs_.empty() && !isLocal_ && dice_.chance(30))
      outputs += ", %" + addReshard(dice_.pick(inputs_));
    const int64_t hostSize = hostSize_ = hasHosts_ ? divisorOf(ranks_, dice_) : ranks_;
    return fmt::format("fusion @drawn(D = {}, M = {}{}) {{\n  mesh [0 .. D){}\n{}  output {}\n}}\n",
                       ranks_, total_, hasHosts_ ? fmt::format(", L = {}", hostSize) : "",
                       hasHosts_ ? " of L" : "", body_, outputs);
  }

  int64_t ranks() const { return ranks_; }
  /// Returns true if there are several hosts with several ranks, as hierarchical schedules require.
  bool canPassOn() const { return !isLocal_ && hostSize_ > 1 && hostSize_ < ranks_; }
  int64_t steps() const { return steps_; }
  /// Returns the leading extent of a step's block, which is split into chunks.
  int64_t blockRows() const {
    const int64_t rows = heads_ ? heads_ : rows_;
    return total_ ? (total_ + steps_ - 1) / steps_ : rows;
  }
  bool hasSums() const { return sums_ > 0; }
  bool hasScatters() const { return hasScatters_; }
  bool hasAllReduces() const { return hasAllReduces_; }
  bool isUneven() const { return total_ > 0; }
  /// Returns the smallest number of rows in a step of any reduction.
  int64_t leastRows(bool inTwoShots) const { return leastRows_[inTwoShots]; }

private:
  std::string middle() const {
    const std::string rows = fmt::format("{}", heads_ ? heads_ : rows_);
    return (total_ ? fmt::format("ceil(M, {})", steps_) : rows) +
           (heads_ ? fmt::format(", {}", rows_) : "");
  }

  /// Returns true if a node uses the tensor.
  bool isRead(const std::string &name) const {
    for (size_t at = 0; (at = body_.find("%" + name, at)) != std::string::npos; ++at)
      if (const char next = body_[at + 1 + name.size()];
          !std::isalnum(next) && body_.compare(at + 1 + name.size(), 3, " = ") != 0)
        return true;
    return false;
  }

  Operand newInput() {
    int64_t k = dice_.pick<int64_t>({1, 2, 3, 5, 8, 13});
    std::string lead = isLocal_ ? fmt::format("{}", steps_) : "DIDx{D}";
    if (isWhole_ && !isLocal_ && dice_.chance(30))
      lead = "D";
    Operand input{fmt::format("A{}", ++names_), lead, middle(), k, false};
    body_ +=
        fmt::format("  %{} = input {}[{}, {}, {}]\n", input.name, dtype_, lead, input.middle, k);
    inputs_.push_back(input);
    return input;
  }

  Operand firstOperand() {
    if (!batchable_.empty() && dice_.chance(40))
      return dice_.pick(batchable_);
    if (!inputs_.empty() && dice_.chance(50))
      return dice_.pick(inputs_);
    return newInput();
  }

  void addGemm() {
    Operand a = firstOperand();
    int64_t n = dice_.pick<int64_t>({1, 2, 3, 4, 7, 11});
    bool isSharded = !a.isGemm && dice_.chance(25);
    bool isLinear = dice_.chance(50);
    bool hasBias = isLinear && dice_.chance(60);
    std::string columns = isSharded ? fmt::format("DIDx{{D}}, {}", n) : fmt::format("{}", n);
    std::string b = fmt::format("B{}", ++names_), bias = fmt::format("b{}", names_);
    std::string bAxes =
        isLinear ? fmt::format("{}, {}", columns, a.k) : fmt::format("{}, {}", a.k, columns);
    body_ += fmt::format("  %{} = input {}[{}]\n", b, dtype_, bAxes);
    if (hasBias)
      body_ += fmt::format("  %{} = input {}[{}]\n", bias, dtype_, columns);
    Operand c{fmt::format("C{}", names_), leadOf(a, isSharded), a.middle, n, true};
    body_ += fmt::format("  %{} = {} %{}, %{}{} : {}[{}, {}, {}]\n", c.name,
                         isLinear ? "linear" : "matmul", a.name, b,
                         hasBias ? ", %" + bias : std::string(), dtype_, c.lead, c.middle, columns);
    gemms_.push_back(c);
    if (!isSharded && !a.isGemm)
      batchable_.push_back(c);
    if (functions_ && !dice_.chance(60))
      alike_.try_emplace(fmt::format("{}, {}, {}", c.lead, c.middle, columns), c.name);
    else if (functions_)
      addFunctions(c, fmt::format("{}, {}, {}", c.lead, c.middle, columns),
                   !isSharded && !a.isGemm);
  }

  /// Adds a function of a GEMM's result, and possibly a binary function of that value and another
  /// result of the same type.
  void addFunctions(const Operand &gemm, const std::string &axes, bool isBatchable) {
    Operand made = gemm;
    made.name = addFunction(dice_.pick<std::string>({"relu", "gelu", "gelu_tanh", "silu"}),
                            "%" + gemm.name, axes);
    if (auto other = alike_.find(axes); other != alike_.end() && dice_.chance(60)) {
      const bool isSum = dice_.chance(30);
      made.name = addFunction(isSum ? "add" : "multiply",
                              dice_.chance(50) ? fmt::format("%{}, %{}", made.name, other->second)
                                               : fmt::format("%{}, %{}", other->second, made.name),
                              axes);
    }
    gemms_.push_back(made);
    if (isBatchable)
      batchable_.push_back(made);
  }

  std::string addFunction(const std::string &function, const std::string &operands,
                          const std::string &axes) {
    std::string name = fmt::format("F{}", ++names_);
    body_ += fmt::format("  %{} = {} {} : {}[{}]\n", name, function, operands, dtype_, axes);
    return name;
  }

  std::string addReshard(const Operand &input) {
    std::string name = fmt::format("X{}", ++names_);
    body_ += fmt::format("  %{} = reshard %{} : {}[Stream{{D}}, {}, {}]\n", name, input.name,
                         dtype_, input.middle, input.k);
    return name;
  }

  /// Adds a GEMM whose contracted axis is split over devices. Its first operand is an input, or the
  /// result of another GEMM with a gathered operand.
  void addSum() {
    std::string lead = dice_.pick<std::string>({"DIDx{D}", "DIDx{D}", "Stream{D}", "D"});
    std::string rows = fmt::format("{}, {}", lead, middle());
    const bool isBehindGather = dice_.chance(50);
    int64_t plain = 0;
    if (!isBehindGather && dice_.chance(25)) {
      plain = dice_.pick<int64_t>({1, rows_, rows_ * ranks_, rows_ * ranks_ + 1});
      rows = std::to_string(plain);
    }
    noteRows(plain == 0 && lead == "DIDx{D}", plain);
    int64_t k = dice_.pick<int64_t>({1, 2, 3, 5, 8, 13});
    const std::string depth = fmt::format("DIDx{{D}}, {}", k);
    const std::string first = isBehindGather ? addProducer(depth) : addPartialInput(rows, depth);
    addContraction(first, rows, depth);
  }

  /// Records the number of rows of a sum that are split into chunks. `plain` is the number of rows
  /// if no axis is divided into blocks, and 0 otherwise.
  void noteRows(bool isScattered, int64_t plain) {
    (isScattered ? hasScatters_ : hasAllReduces_) = true;
    const int64_t all = total_ ? total_ : heads_ ? ranks_ : ranks_ * blockRows();
    const int64_t one = isScattered ? blockRows() : plain ? plain : all;
    const int64_t two = plain ? (plain + ranks_ - 1) / ranks_ : blockRows();
    leastRows_[0] = std::min(leastRows_[0], one);
    leastRows_[1] = std::min(leastRows_[1], two);
  }

  /// Adds an input with the rows of a partial result. Every rank stores all of these rows.
  std::string addPartialInput(std::string rows, const std::string &depth) {
    if (size_t axis = rows.find('{'); axis != std::string::npos)
      rows = "D" + rows.substr(rows.find('}') + 1);
    std::string name = fmt::format("A{}", ++names_);
    body_ += fmt::format("  %{} = input {}[{}, {}]\n", name, dtype_, rows, depth);
    return name;
  }

  /// Adds the first half of an MLP. Other nodes may also use its gathered input.
  std::string addProducer(const std::string &columns) {
    Operand a =
        isLocal_ || inputs_.empty() || dice_.chance(60) ? newGatheredInput() : dice_.pick(inputs_);
    const std::string result = fmt::format("Stream{{D}}, {}, {}", middle(), columns);
    const std::string made = addNode(a.name, std::to_string(a.k), columns, "", result);
    if (!functions_ || dice_.chance(30))
      return made;
    return addFunction(dice_.pick<std::string>({"relu", "gelu", "gelu_tanh", "silu"}), "%" + made,
                       result);
  }

  Operand newGatheredInput() {
    int64_t k = dice_.pick<int64_t>({1, 2, 3, 5, 8, 13, 20});
    Operand input{fmt::format("A{}", ++names_), "DIDx{D}", middle(), k, false};
    body_ += fmt::format("  %{} = input {}[DIDx{{D}}, {}, {}]\n", input.name, dtype_, middle(), k);
    return input;
  }

  void addContraction(const std::string &first, const std::string &rows, const std::string &depth) {
    const std::string columns = std::to_string(dice_.pick<int64_t>({1, 2, 3, 4, 7, 11}));
    const bool isHalf = dtype_ == "bf16" || dtype_ == "f16";
    const std::string type = isHalf && dice_.chance(70) ? "f32" : dtype_;
    const std::string partial = dice_.chance(50) ? " partial " + type : "";
    const std::string axes = rows + ", " + columns;
    const std::string sum = addNode(first, depth, columns, partial, axes);
    if (functions_ && dice_.chance(60))
      addFunctionsOfSum(sum, axes);
  }

  /// Adds a function of a sum, and possibly a function of the result and an input.
  void addFunctionsOfSum(const std::string &sum, const std::string &axes) {
    std::string made = addFunction(dice_.pick<std::string>({"relu", "gelu", "gelu_tanh", "silu"}),
                                   "%" + sum, axes);
    gemms_.push_back({made, "", "", 0, true});
    if (dice_.chance(40))
      return;
    const bool isStream = axes.starts_with("Stream");
    std::string other = fmt::format("R{}", ++names_);
    body_ += fmt::format("  %{} = input {}[{}]\n", other, dtype_,
                         isStream ? "D" + axes.substr(axes.find('}') + 1) : axes);
    // Some types cannot represent products of sums over more than four ranks.
    const std::string function = ranks_ <= 4 && dice_.chance(50) ? "multiply" : "add";
    made = addFunction(function, fmt::format("%{}, %{}", made, other), axes);
    gemms_.push_back({made, "", "", 0, true});
  }

  /// Adds a matmul or linear with a new second operand and possibly a bias. It may be an output.
  std::string addNode(const std::string &first, const std::string &depth,
                      const std::string &columns, const std::string &partial,
                      const std::string &result) {
    const bool isLinear = dice_.chance(50), hasBias = isLinear && dice_.chance(60);
    int number = ++names_;
    body_ += fmt::format("  %B{} = input {}[{}]\n", number, dtype_,
                         isLinear ? columns + ", " + depth : depth + ", " + columns);
    if (hasBias)
      body_ += fmt::format("  %b{} = input {}[{}]\n", number, dtype_, columns);
    std::string name = fmt::format("C{}", number);
    body_ += fmt::format("  %{} = {} %{}, %B{}{}{} : {}[{}]\n", name,
                         isLinear ? "linear" : "matmul", first, number,
                         hasBias ? fmt::format(", %b{}", number) : "", partial, dtype_, result);
    gemms_.push_back({name, "", "", 0, true});
    return name;
  }

  /// Draws the leading axes of a GEMM's result.
  std::string leadOf(const Operand &a, bool isSharded) {
    if (!isWhole_ || dice_.chance(40))
      return streamAxis();
    if (a.lead != "DIDx{D}" && !isLocal_ && !isSharded && dice_.chance(60))
      return "DIDx{D}";
    return isLocal_ ? fmt::format("{}", steps_) : "D";
  }

  std::string streamAxis() const {
    return isLocal_ ? fmt::format("Stream{{{}}}", steps_) : "Stream{D}";
  }

  Dice &dice_;
  const bool isWhole_, hasHosts_;
  int64_t ranks_, rows_, heads_, steps_, hostSize_ = 1;
  int64_t sums_;      ///< number of sums over devices
  int64_t total_ = 0; ///< total number of rows if blocks may be padded, otherwise 0
  bool functions_;
  std::map<std::string, std::string> alike_; ///< an unused result of each type
  bool isLocal_, hasScatters_ = false, hasAllReduces_ = false;
  int64_t leastRows_[2] = {1 << 20, 1 << 20}; ///< with one shot, and with two
  std::string dtype_, body_;
  int names_ = 0;
  std::vector<Operand> inputs_, gemms_, batchable_;
};

} // namespace

namespace {

Configuration findPreset(const std::string &name) {
  return llvm::find_if(presets(), [&](const Preset &each) { return each.name == name; })->fields;
}

/// Picks a schedule that also supports reductions. Returns the maximum number of chunks.
int64_t suitSums(Configuration &config, int64_t chunks, const Writer &writer, Dice &dice) {
  auto preset = dice.pick<std::string>({"pairwise", "pairwise", "sequential", "bulk"});
  if (!writer.hasAllReduces() && dice.chance(40))
    preset = "ring";
  if (!writer.isUneven() && dice.chance(15)) {
    preset = "collective";
    config.set(Knob::Protocol, Protocol::Get);
  }
  const Configuration fields = findPreset(preset);
  for (Knob field : presetFields())
    config.set(field, fields.get(field));
  if (preset == "pairwise" && dice.chance(50))
    config.set(Knob::Placement, schedule::Placement::Shared);
  const bool hasTwoShots = writer.hasAllReduces() && preset != "collective" && dice.chance(60);
  if (hasTwoShots)
    config.set(Knob::Reduction, schedule::Reduction::TwoShot).set(Knob::Streams, 1 + dice.below(7));
  const bool isPushed = preset == "pairwise" && config.placement() == schedule::Placement::Each &&
                        config.protocol() == Protocol::Put;
  if (isPushed && (hasTwoShots || !writer.hasAllReduces()) && dice.chance(50))
    config.set(Knob::Partials, schedule::Partials::Peer);
  if (hasTwoShots && config.protocol() == Protocol::Get && dice.chance(50))
    config.set(Knob::SecondShot, schedule::SecondShot::Put);
  const bool hasChunks = (preset == "pairwise" || preset == "ring") && writer.ranks() > 1;
  if (!hasChunks)
    return 1;
  const int64_t rows = writer.leastRows(hasTwoShots);
  chunks = std::min(chunks, rows);
  if (dice.chance(40))
    config.set(Knob::TailSplit, 1 + dice.below(std::min(rows, writer.blockRows()) / chunks));
  return chunks;
}

/// Picks a hierarchical schedule, which reduces in two shots if the fusion has an all-reduce.
/// Returns the maximum number of chunks.
int64_t suitHosts(Configuration &config, int64_t chunks, const Writer &writer, Dice &dice) {
  const Configuration fields = findPreset("hierarchical");
  for (Knob field : presetFields())
    config.set(field, fields.get(field));
  if (dice.chance(50))
    config.set(Knob::Placement, schedule::Placement::Shared);
  config.set(Knob::Reduction, std::nullopt).set(Knob::Partials, std::nullopt);
  config.set(Knob::Streams, 1 + dice.below(12));
  if (writer.hasAllReduces())
    config.set(Knob::Reduction, schedule::Reduction::TwoShot);
  const bool isPushed = config.placement() == schedule::Placement::Each &&
                        config.protocol() == Protocol::Put && writer.hasSums();
  if (isPushed && dice.chance(50))
    config.set(Knob::Partials, schedule::Partials::Peer);
  if (!writer.hasSums())
    return chunks;
  const int64_t rows = std::min(writer.leastRows(true), writer.blockRows());
  chunks = std::min(chunks, rows);
  config.set(Knob::TailSplit, 1 + dice.below(rows / chunks));
  return chunks;
}

} // namespace

RandomCase randomCase(uint64_t seed, const RandomKinds &kinds) {
  Dice dice(seed);
  Writer writer(dice, kinds);
  RandomCase drawn;
  drawn.seed = seed;
  drawn.text = writer.write();
  Configuration &config = drawn.compile.schedule.all;
  config = dice.pick<Preset>(pairPresets()).fields;
  if (config.preset() == "pairwise" && dice.chance(50))
    config.set(Knob::Placement, schedule::Placement::Shared);
  config.set(Knob::Protocol, dice.chance(50) ? Protocol::Get : Protocol::Put);
  config.set(Knob::Streams, 1 + dice.below(5));
  int64_t chunks = 1 + dice.below(std::min<int64_t>(writer.blockRows(), 4));
  if (writer.hasSums())
    chunks = suitSums(config, chunks, writer, dice);
  if (kinds.whole) {
    config = dice.chance(50) ? presets().front().fields : findPreset("bulk");
    config.set(Knob::Protocol, dice.chance(50) ? Protocol::Get : Protocol::Put);
    chunks = 1;
  }
  if (kinds.hosts) // peers may be on other hosts
    config.set(Knob::Partials, std::nullopt).set(Knob::SecondShot, std::nullopt);
  if (kinds.hosts && writer.hasSums() && !writer.canPassOn())
    config.set(Knob::Protocol, Protocol::Get);
  if (kinds.hosts && writer.canPassOn() && !kinds.whole)
    chunks = suitHosts(config, chunks, writer, dice);
  config.set(Knob::Chunks, chunks);
  drawn.run.iterations = 1 + dice.below(5);
  drawn.run.verify = true;
  drawn.run.seed = seed;
  if (dice.chance(50))
    drawn.run.cluster.scheduleSeed = seed;
  drawn.run.cluster.queues = static_cast<uint32_t>(dice.pick<int64_t>({0, 0, 1, 2}));
  if (dice.chance(50) && !writer.hasSums() && !kinds.whole)
    config.set(Knob::TailSplit, 1 + dice.below(writer.blockRows() / chunks));
  return drawn;
}

std::string RandomCase::str() const {
  const std::optional<uint64_t> &order = run.cluster.scheduleSeed;
  return fmt::format("case {}: --schedule '{}' --iterations {} --queues {} {}\n{}", seed,
                     compile.schedule.str(), run.iterations, run.cluster.queues,
                     order ? fmt::format("--schedule-seed {}", *order) : "", text);
}

Status checkCase(const RandomCase &drawn) {
  return checkText(drawn.text, drawn.compile).annotated(drawn.str());
}

Status runCase(const RandomCase &drawn) {
  std::unique_ptr<Source> source = parseSource("drawn.braid", drawn.text);
  Result<Compiled> compiled = compile(*source, drawn.compile);
  if (!compiled)
    return compiled.status().annotated(drawn.str() + source->diags.str());
  BackendRegistry registry = builtinBackends();
  Result<RunReport> report = run(*compiled, *registry.find("cpu"), drawn.run);
  if (!report)
    return report.status().annotated(drawn.str() + source->diags.str());
  return Status::ok();
}

} // namespace braid::test
