//===- lowering/stages/configure_stages.cpp - the configuration of each stage -----------------===//

#include "lowering/stages/configure_stages.h"

#include "lowering/stages/reduced_rows.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <bit>

namespace braid {
namespace {

/// If `knob` has the value `value`, `other` must have a value in the bit mask `allowed`.
struct Rule {
  Knob knob;
  int64_t value;
  Knob other;
  uint32_t allowed;
};

template <class... E> constexpr uint32_t only(E... values) { return ((1u << int(values)) | ...); }
template <class E> constexpr Rule rule(Knob knob, E value, Knob other, uint32_t allowed) {
  return {knob, static_cast<int64_t>(value), other, allowed};
}

using namespace schedule;

constexpr Rule kRules[] = {
    // A ring forwards the block received in the previous step, on the same stream.
    rule(Knob::Order, Order::Ring, Knob::Posting, only(Posting::Each)),
    rule(Knob::Order, Order::Ring, Knob::Granularity, only(Granularity::Chunk)),
    rule(Knob::Order, Order::Ring, Knob::Placement, only(Placement::Ring)),
    rule(Knob::Placement, Placement::Ring, Knob::Order, only(Order::Ring)),
    // Geometric granularity needs contiguous blocks, which only xor provides, and its GEMMs span
    // several streams.
    rule(Knob::Order, Order::Xor, Knob::Granularity, only(Granularity::Geometric)),
    rule(Knob::Granularity, Granularity::Geometric, Knob::Order, only(Order::Xor)),
    rule(Knob::Granularity, Granularity::Geometric, Knob::Posting, only(Posting::Each)),
    rule(Knob::Granularity, Granularity::Geometric, Knob::Placement, only(Placement::Shared)),
    // A single GEMM over all blocks cannot overlap with transfers.
    rule(Knob::Granularity, Granularity::Whole, Knob::Placement,
         only(Placement::Each, Placement::Caller)),
    rule(Knob::Posting, Posting::All, Knob::Placement, only(Placement::Shared, Placement::Caller)),
    rule(Knob::Placement, Placement::Caller, Knob::Posting, only(Posting::All)),
    rule(Knob::Placement, Placement::Caller, Knob::Granularity, only(Granularity::Whole)),
    // A block must arrive before it can be forwarded, so the steps of a host are not independent.
    rule(Knob::Order, Order::Hierarchical, Knob::Granularity,
         only(Granularity::Chunk, Granularity::Whole)),
    rule(Knob::Order, Order::Hierarchical, Knob::Posting, only(Posting::Each)),
    rule(Knob::Order, Order::Hierarchical, Knob::Placement,
         only(Placement::Each, Placement::Shared)),
    // Every rank participates in each collective, so all ranks run the steps in the same order.
    // The protocol only applies to point-to-point transfers.
    rule(Knob::Transfers, Transfers::Collective, Knob::Order, only(Order::Shift)),
    rule(Knob::Transfers, Transfers::Collective, Knob::Posting, only(Posting::Each)),
    rule(Knob::Transfers, Transfers::Collective, Knob::Placement, only(Placement::Each)),
    rule(Knob::Transfers, Transfers::Collective, Knob::Protocol, only(Protocol::Get)),
};

/// The values of a knob that reductions accept, as a bit mask.
struct ReductionRule {
  Knob knob;
  uint32_t allowed;
};

constexpr ReductionRule kReductionRules[] = {
    {Knob::Order, only(Order::Shift, Order::Ring, Order::Hierarchical)},
    {Knob::Granularity, only(Granularity::Chunk, Granularity::Whole)},
};

constexpr Rule kRulesOfSharedGathers[] = {rule(Knob::Stepwise, Stepwise::First, Knob::Granularity,
                                               only(Granularity::Chunk, Granularity::Geometric))};

/// Values for which results are reproducible, because partial results are added in rank order.
constexpr ReductionRule kReproducibleRules[] = {
    {Knob::Order, only(Order::Shift)},
    {Knob::Transfers, only(Transfers::Pairs)},
};

/// Posting all transfers together requires a single GEMM, because each chunk is sent as soon as it
/// has been computed.
constexpr Rule kRulesOfReductions[] = {
    rule(Knob::Posting, Posting::All, Knob::Granularity, only(Granularity::Whole)),
    // A GEMM stores its result in the peer's memory, so there is no copy to place on a stream.
    rule(Knob::Partials, Partials::Peer, Knob::Protocol, only(Protocol::Put)),
    rule(Knob::Partials, Partials::Peer, Knob::Granularity, only(Granularity::Chunk)),
    rule(Knob::Partials, Partials::Peer, Knob::Placement, only(Placement::Each, Placement::Ring)),
    rule(Knob::Partials, Partials::Peer, Knob::Transfers, only(Transfers::Pairs)),
    // second-shot=put has no effect on sums that are already pushed, or that are forwarded.
    rule(Knob::SecondShot, SecondShot::Put, Knob::Reduction, only(schedule::Reduction::TwoShot)),
    rule(Knob::SecondShot, SecondShot::Put, Knob::Protocol, only(Protocol::Get)),
    rule(Knob::SecondShot, SecondShot::Put, Knob::Order, only(Order::Shift, Order::Ring)),
    // Only a ring computes a GEMM after the sum for the same rows has arrived.
    rule(Knob::Sums, Sums::Gemm, Knob::Order, only(Order::Ring)),
    // A host adds one chunk's partial results while GEMMs compute the next chunk.
    rule(Knob::Order, Order::Hierarchical, Knob::Granularity, only(Granularity::Chunk)),
    // A collective implements the whole all-reduce, and reduces one chunk at a time. With a single
    // chunk, one GEMM computes everything.
    rule(Knob::Transfers, Transfers::Collective, Knob::Granularity, only(Granularity::Chunk)),
    rule(Knob::Transfers, Transfers::Collective, Knob::Reduction,
         only(schedule::Reduction::OneShot)),
};

/// Returns text such as "gather %A" or "reduce to %C".
std::string actionOf(const Stage &stage) {
  return stage.isGather() ? "gather %" + stage.name().str() : "reduce to %" + stage.result().name;
}

/// Returns text such as "shift or xor".
std::string wordsOf(const KnobRow &knob, uint32_t allowed) {
  std::string text;
  for (size_t word = 0; word < knob.words.size(); ++word)
    if (allowed >> word & 1)
      text += (text.empty() ? "" : " or ") + knob.words[word];
  return text;
}

bool isAllowed(const Configuration &config, Knob knob, uint32_t allowed) {
  return (allowed >> config.valueOf(knob) & 1) != 0;
}

/// Returns text such as "expected order=shift, got order=ring", or "" if no rule is broken.
std::string brokenRule(llvm::ArrayRef<ReductionRule> rules, const Configuration &config) {
  for (const auto &[knob, allowed] : rules)
    if (!isAllowed(config, knob, allowed)) {
      const KnobRow &row = rowOf(knob);
      return "expected " + row.name + "=" + wordsOf(row, allowed) + ", got " + row.name + "=" +
             row.str(config.valueOf(knob));
    }
  return "";
}

/// Returns text such as "placement=ring requires order=ring, got shift", or "" if all rules hold.
std::string brokenRule(llvm::ArrayRef<Rule> rules, const Configuration &config) {
  for (const Rule &rule : rules)
    if (config.valueOf(rule.knob) == rule.value && !isAllowed(config, rule.other, rule.allowed)) {
      const KnobRow &knob = rowOf(rule.knob), &other = rowOf(rule.other);
      return knob.name + "=" + knob.str(rule.value) + " requires " + other.name + "=" +
             wordsOf(other, rule.allowed) + ", got " + other.str(config.valueOf(rule.other));
    }
  return "";
}

/// If `config` is valid for reductions, but not for this all-reduce, returns the reason, else "".
std::string conflictOfAllReduce(const Stage &stage, const Configuration &config) {
  if (config.order() == Order::Ring && config.reduction() != schedule::Reduction::TwoShot)
    return "order=ring requires reduction=two-shot, got one-shot: in a ring, each rank receives "
           "only the sum of its own rows";
  if (config.order() == Order::Hierarchical && config.reduction() != schedule::Reduction::TwoShot)
    return "order=hierarchical requires reduction=two-shot: one-shot would send every partial "
           "result over the network to all ranks";
  if (config.reduction() == schedule::Reduction::TwoShot && stage.rows == 0)
    return "reduction=two-shot divides rows among the ranks, but the result has no rows; use "
           "one-shot";
  if (config.partials() == Partials::Peer && !stage.isTwoShot())
    return "a one-shot reduction also needs each rank's own partial result in local memory; use "
           "partials=local";
  return "";
}

/// If a collective reduction cannot be split as requested, returns the reason, else "".
std::string conflictOfChunks(const Stage &stage, const Configuration &config) {
  if (config.tailSplit() > 1)
    return "the chunks of a collective must have equal sizes; use tail-split=1";
  const int64_t rows = stage.rows, chunks = config.chunks();
  if (chunks == 1 || (rows > 0 && rows % chunks == 0))
    return "";
  return "the chunks of a collective must have equal sizes: expected chunks=1 or another divisor "
         "of " +
         std::to_string(rows) + " rows, got chunks=" + std::to_string(chunks);
}

/// If the stage requires collectives but `config` does not use them, or `config` uses collectives
/// in a way that the stage does not support, returns the reason, otherwise "".
std::string conflictOfCollective(const Stage &stage, const Configuration &config) {
  if (stage.gathersSlices && config.transfers() != Transfers::Collective)
    return "each step needs a slice of every device's block; use transfers=collective";
  if (config.transfers() == Transfers::Pairs)
    return "";
  if (stage.uneven)
    return "some ranks have fewer rows, but a collective requires the same number of rows on every "
           "rank; use transfers=pairs";
  if (stage.isReduction())
    return conflictOfChunks(stage, config);
  if (stage.gathersSlices && config.granularity() != Granularity::Chunk)
    return "each step needs a slice of every device's block; use granularity=chunk";
  if (config.chunks() * config.tailSplit() > 1)
    return "a gather that uses a collective cannot be split; use chunks=1 and tail-split=1";
  return "";
}

/// If `config` does not suit the mesh's hosts, because there are no local peers to forward blocks
/// to, or because some peers are on other hosts, returns the reason, otherwise "".
std::string conflictOfHosts(const Stage &stage, const Configuration &config) {
  const bool staysInHosts = stage.ranksPerHost == stage.steps || !stage.isReduction() ||
                            config.order() == Order::Hierarchical;
  const std::string hierarchical = config.sums() == Sums::Gemm ? "" : " or order=hierarchical";
  if (config.partials() == Partials::Peer && !staysInHosts)
    return "partials=peer stores partial results in peer memory, but some peers are on other "
           "hosts; use partials=local with protocol=get" +
           hierarchical;
  if (config.protocol() == Protocol::Put && config.transfers() == Transfers::Pairs && !staysInHosts)
    return "protocol=put waits for received partial results separately, but messages between "
           "hosts are exchanged in pairs; use protocol=get" +
           hierarchical;
  if (config.secondShot() == SecondShot::Put && !staysInHosts)
    return "second-shot=put stores the sums in peer memory, but some peers are on other hosts; use "
           "second-shot=same";
  if (config.order() != Order::Hierarchical || stage.gathersSlices)
    return "";
  if (stage.hosts() == 1)
    return "order=hierarchical requires a mesh that spans several hosts, such as mesh [0 .. " +
           std::to_string(2 * stage.ranksPerHost) + ") of " + std::to_string(stage.ranksPerHost) +
           ", got one host";
  if (stage.ranksPerHost == 1)
    return "order=hierarchical requires several ranks per host, got one: ranks of the same host "
           "forward blocks to one another";
  return "";
}

/// If a stage that communicates cannot use `config`, returns the reason, otherwise "".
std::string conflictOf(const Stage &stage, const Configuration &config, bool isReproducible) {
  std::string conflict;
  if (stage.isReduction()) {
    if (isReproducible)
      conflict = brokenRule(kReproducibleRules, config);
    if (!conflict.empty())
      return "reproducible sums add partial results in rank order: " + conflict;
    conflict = brokenRule(kReductionRules, config);
  }
  if (conflict.empty())
    conflict = brokenRule(kRules, config);
  if (conflict.empty() && stage.isReduction())
    conflict = brokenRule(kRulesOfReductions, config);
  if (conflict.empty() && stage.isShared())
    conflict = brokenRule(kRulesOfSharedGathers, config);
  if (conflict.empty())
    conflict = conflictOfCollective(stage, config);
  if (conflict.empty())
    conflict = conflictOfHosts(stage, config);
  if (conflict.empty() && stage.isReduction() && !stage.keepsOwnRows())
    conflict = conflictOfAllReduce(stage, config);
  if (conflict.empty() && stage.isReduction() && config.order() == Order::Ring)
    conflict = config.sums() == Sums::Gemm ? "" : "order=ring requires sums=gemm, got kernel";
  return conflict;
}

/// Returns the configuration that the stage uses if the user requests `asked`. Without a Stream
/// axis, or if one collective gathers all blocks, a single GEMM computes the results, as with
/// granularity=whole. A stage that gathers slices of all devices' blocks uses collectives. In a
/// ring, GEMMs add the partial results.
Configuration settled(const Stage &stage, Configuration asked) {
  const bool comesAtOnce = asked.transfers() == Transfers::Collective && !stage.gathersSlices;
  if (stage.isGather() && (!stage.isStreamed || comesAtOnce))
    asked.set(Knob::Granularity, Granularity::Whole);
  if (stage.gathersSlices && !asked.get(Knob::Transfers))
    asked.set(Knob::Transfers, Transfers::Collective);
  if (stage.isReduction() && asked.order() == Order::Ring && !asked.get(Knob::Sums))
    asked.set(Knob::Sums, Sums::Gemm);
  return asked;
}

/// If the stage cannot use the configuration `asked`, returns the reason, otherwise "".
std::string conflictOfAsked(const Stage &stage, const Configuration &asked, bool isReproducible) {
  const std::string conflict = conflictOf(stage, settled(stage, asked), isReproducible);
  if (!stage.isGather() || stage.isStreamed)
    return conflict;
  if (asked.granularity() == Granularity::Geometric && asked.transfers() != Transfers::Collective)
    return "expected granularity=whole, got geometric: no result has a Stream axis";
  return conflict.empty() ? ""
                          : "no result has a Stream axis, so granularity is whole; " + conflict;
}

/// True if the stage can use the configuration `asked`, and split-chunks would accept its number of
/// chunks, which must be 1 if a single GEMM computes everything.
bool takes(const LoweringState &state, Stage stage, const Configuration &asked) {
  stage.config = settled(stage, asked);
  if (stage.isReduction())
    countReducedRows(state.fusion, stage);
  const bool isTailMeant = stage.isNamed || llvm::none_of(state.stages, [](const Stage &each) {
                             return each.isGather();
                           });
  const bool isCut = stage.config.chunks() > 1 || (isTailMeant && stage.config.tailSplit() > 1);
  return !(stage.isReduction() && stage.multipliesWhole() && isCut) &&
         conflictOfAsked(stage, asked, state.isReproducible).empty();
}

/// Returns advice that names the user's preset, if any, and the presets that would work for all
/// stages to which the user's preset applies.
std::string adviceFor(const LoweringState &state, const Stage &stage, const Configuration &asked) {
  const llvm::StringRef typed = asked.preset();
  std::string others;
  for (const Preset &preset : presets()) {
    const Configuration instead = preset.fields.over(asked);
    if (preset.name == typed && instead != asked)
      return "";
    const bool fits = llvm::all_of(state.stages, [&](const Stage &each) {
      const bool isMeant = &each == &stage || (!stage.isNamed && !each.isNamed && each.moves());
      return !isMeant || takes(state, each, instead);
    });
    if (fits)
      others += (others.empty() ? "" : ", ") + preset.name.str();
  }
  return others.empty() ? ""
                        : " (schedule " + typed.str() + "; possible schedules: " + others + ")";
}

} // namespace

Configuration fieldsFor(const Configuration &given) {
  auto fieldsOf = [&](const Preset &preset) {
    Configuration fields = preset.fields;
    for (const auto &[knob, value, other, allowed] : kRulesOfReductions)
      if (given.get(knob) == value && !given.get(other) && !fields.get(other) &&
          !isAllowed(given, other, allowed))
        fields.set(other, std::countr_zero(allowed));
    return fields;
  };
  const llvm::ArrayRef<Preset> all = presets();
  const auto *found = llvm::find_if(all, [&](const Preset &preset) {
    const Configuration config = given.over(fieldsOf(preset));
    return brokenRule(kRules, config).empty() && brokenRule(kRulesOfReductions, config).empty();
  });
  return fieldsOf(found == all.end() ? all.front() : *found);
}

Configuration completed(const Configuration &given) {
  const Configuration fields = fieldsFor(given);
  return fields == presets().front().fields ? given : given.over(fields);
}

/// Completes the configuration of a stage that communicates, and counts the rows in its steps. If
/// the stage does not support the configuration, reports the alternatives and returns false.
static bool settleFields(const LoweringState &state, Stage &stage) {
  if (stage.isReduction())
    countReducedRows(state.fusion, stage);
  const Configuration asked = stage.config;
  stage.config = settled(stage, asked);
  const std::string conflict = conflictOfAsked(stage, asked, state.isReproducible);
  if (conflict.empty())
    return true;
  return state.diags.error(stage.location())
         << "cannot " << actionOf(stage) << ": " << conflict << adviceFor(state, stage, asked);
}

namespace {

std::vector<std::string> resultsOf(llvm::ArrayRef<Stage> stages) {
  std::vector<std::string> names;
  for (const Stage &stage : stages)
    llvm::append_range(names, stage.tensors());
  return names;
}

bool configure(LoweringState &state, const Configurations::OfStage &chosen) {
  auto stage = llvm::find_if(state.stages, [&](const Stage &s) {
    return llvm::is_contained(resultsOf(s), chosen.tensor);
  });
  const std::vector<std::string> names = resultsOf(state.stages);
  if (stage == state.stages.end())
    return state.diags.error(state.fusion.location())
           << "the schedule names %" << chosen.tensor
           << ", but no stage computes this tensor; the stages compute %"
           << llvm::join(names, ", %") << didYouMean(chosen.tensor, names);
  if (stage->isNamed)
    return state.diags.error(stage->location())
           << "the schedule names the stage of %" << chosen.tensor << " twice";
  stage->config = chosen.config.over(state.options.all);
  stage->isNamed = true;
  return true;
}

/// A knob value that only some stages support. Other stages ignore a value that is set for all
/// stages, unless no stage supports it.
struct OfSome {
  Knob knob;
  int64_t value;
  bool (*takes)(const Stage &stage);
  const char *expected;
};

constexpr OfSome kOfSome[] = {
    {Knob::Stepwise, int64_t(Stepwise::First), [](const Stage &stage) { return stage.isShared(); },
     "several GEMMs that share a gather"},
    {Knob::Reduction, int64_t(Reduction::TwoShot),
     [](const Stage &stage) { return stage.isReduction() && !stage.keepsOwnRows(); },
     "an all-reduce"},
    {Knob::SecondShot, int64_t(SecondShot::Put),
     [](const Stage &stage) { return stage.isReduction() && !stage.keepsOwnRows(); },
     "an all-reduce"},
    {Knob::Partials, int64_t(Partials::Peer),
     [](const Stage &stage) { return stage.isReduction(); }, "a reduction"},
    {Knob::Sums, int64_t(Sums::Gemm), [](const Stage &stage) { return stage.isReduction(); },
     "a reduction"},
};

bool checkOfSome(const LoweringState &state, const Stage &stage) {
  for (const auto &[knob, value, takes, expected] : kOfSome) {
    auto hasIt = [&, knob = knob, value = value, takes = takes](const Stage &each) {
      return takes(each) && each.config.valueOf(knob) == value;
    };
    const bool isMeant = stage.isNamed || llvm::none_of(state.stages, hasIt);
    if (stage.config.valueOf(knob) != value || hasIt(stage) || !isMeant)
      continue;
    const KnobRow &row = rowOf(knob);
    return state.diags.error(stage.location())
           << "cannot " << actionOf(stage) << ": " << row.name << "=" << row.str(value)
           << " requires " << expected << "; use " << row.str(row.fallback);
  }
  return true;
}

} // namespace

bool configureStages(LoweringState &state) {
  bool isFine = true;
  for (Stage &stage : state.stages)
    stage.config = state.options.all;
  for (const Configurations::OfStage &chosen : state.options.stages)
    isFine &= configure(state, chosen);
  for (Stage &stage : state.stages)
    if (isFine && stage.moves())
      isFine = checkOfSome(state, stage) && settleFields(state, stage);
  return isFine;
}

std::string scheduleName(const LoweringState &state) {
  std::string name = "local";
  for (const Stage &stage : state.stages) {
    if (!stage.moves())
      continue;
    const std::string mine = stage.config.preset().str();
    name = name == "local" || name == mine ? mine : "mixed";
  }
  return name;
}

} // namespace braid
