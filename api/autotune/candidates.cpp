//===- api/autotune/candidates.cpp - the candidates for a stage -------------------------------===//

#include "api/autotune/candidates.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

/// A GEMM with fewer rows than this leaves most of a GPU idle.
constexpr int64_t kLeastRows = 64;

/// If a block has more rows than this, GEMMs cannot hide the time to store it in a peer's memory.
constexpr int64_t kMostRowsAtPeers = 256;

using namespace schedule;

using Values = std::vector<int64_t>;
/// A knob, and a function that returns the values to try for it. The function receives a candidate
/// in which all preceding knobs are set.
struct Variation {
  Knob knob;
  Values (*values)(const Candidate &candidate, const FusionStage &stage);
};

bool multipliesWhole(const Candidate &candidate) {
  return candidate.granularity() == Granularity::Whole;
}

bool isHierarchical(const Candidate &candidate) { return candidate.order() == Order::Hierarchical; }

bool hasTwoShots(const Candidate &candidate) { return candidate.reduction() == Reduction::TwoShot; }

/// Returns true if blocks are transferred one at a time, either on the GEMMs' streams or on
/// separate streams.
bool takesBlocksInTurn(const Candidate &candidate) {
  const bool isInTurn = candidate.order() == Order::Shift || isHierarchical(candidate);
  return isInTurn && candidate.posting() == Posting::Each &&
         candidate.granularity() == Granularity::Chunk && candidate.transfers() == Transfers::Pairs;
}

/// Returns false for ring reductions that the user has not requested, if they would change the
/// order of additions and round intermediate sums on each rank.
bool keepsSums(const Candidate &candidate, const Configuration &given, const FusionStage &stage) {
  const bool isAsked = given.get(Knob::Order) == int64_t(Order::Ring) ||
                       given.get(Knob::Sums) == int64_t(Sums::Gemm);
  return candidate.order() != Order::Ring || !stage.isReduction || isAsked || stage.gemmsMayAdd;
}

Values reductions(const Candidate &, const FusionStage &stage) {
  return stage.rowsInTwoShots ? Values{int64_t(Reduction::OneShot), int64_t(Reduction::TwoShot)}
                              : Values{int64_t(Reduction::OneShot)};
}

/// Returns how partial results are added: by the GEMMs in a ring reduction, otherwise by a kernel.
Values sums(const Candidate &candidate, const FusionStage &stage) {
  const bool isRing = candidate.order() == Order::Ring && stage.isReduction;
  return {int64_t(isRing ? Sums::Gemm : Sums::Kernel)};
}

Values stepwise(const Candidate &candidate, const FusionStage &stage) {
  return stage.isShared && !multipliesWhole(candidate)
             ? Values{int64_t(Stepwise::All), int64_t(Stepwise::First)}
             : Values{int64_t(Stepwise::All)};
}

Values placements(const Candidate &candidate, const FusionStage &) {
  return takesBlocksInTurn(candidate) ? Values{int64_t(Placement::Each), int64_t(Placement::Shared)}
                                      : Values{candidate.valueOf(Knob::Placement)};
}

/// Returns the number of streams that execute only transfers and sums.
int64_t streamsForTransfers(const Candidate &candidate, const FusionStage &stage) {
  const bool areShared =
      candidate.placement() == Placement::Shared && candidate.posting() == Posting::Each;
  const int64_t forHosts = isHierarchical(candidate) ? 2 : 0;
  if (stage.isReduction && !multipliesWhole(candidate) && candidate.transfers() == Transfers::Pairs)
    return forHosts + (areShared ? 3 : 2) + (hasTwoShots(candidate) ? 2 + forHosts : 0);
  return forHosts + (areShared ? 2 : 0);
}

/// If some streams execute no GEMMs, tries one and two streams for GEMMs. The schedule does not
/// determine which number is better, but on a power-limited GPU, this number matters more than any
/// other knob.
Values streamCounts(const Candidate &candidate, const FusionStage &stage) {
  const int64_t others = streamsForTransfers(candidate, stage);
  // On several streams, the peer's chunks can run ahead of local chunks, which wait for sums. If no
  // data is copied, a single stream that runs all chunks in sequence suffices.
  if (candidate.sums() == Sums::Gemm)
    return {1, others + 2, others + 4};
  return others > 0 ? Values{others + 1, others + 2} : Values{*rowOf(Knob::Streams).fallback};
}

Values protocols(const Candidate &, const FusionStage &) {
  return {int64_t(Protocol::Get), int64_t(Protocol::Put)};
}

/// If all transfers of a shot are posted at once, also tries a kernel that stores to peers' memory.
Values secondShots(const Candidate &candidate, const FusionStage &) {
  return hasTwoShots(candidate) && candidate.posting() == Posting::All
             ? Values{int64_t(SecondShot::Same), int64_t(SecondShot::Put)}
             : Values{int64_t(SecondShot::Same)};
}

int64_t rowsOfStep(const Candidate &candidate, const FusionStage &stage) {
  return hasTwoShots(candidate) ? *stage.rowsInTwoShots : stage.rows;
}

/// If GEMMs add the partial results, stores to peers' memory are worth trying for all sizes.
Values partials(const Candidate &candidate, const FusionStage &stage) {
  const bool isWorthIt =
      candidate.sums() == Sums::Gemm || rowsOfStep(candidate, stage) <= kMostRowsAtPeers;
  return stage.isReduction && isWorthIt ? Values{int64_t(Partials::Local), int64_t(Partials::Peer)}
                                        : Values{int64_t(Partials::Local)};
}

/// Returns all numbers of chunks per block for which each GEMM has enough rows.
Values chunkCounts(const Candidate &candidate, const FusionStage &stage) {
  Values counts = {1};
  for (int64_t each : {2, 4, 8})
    if (!multipliesWhole(candidate) && rowsOfStep(candidate, stage) / each >= kLeastRows)
      counts.push_back(each);
  return counts;
}

/// As an alternative to chunks, tries splitting only the tail of each block.
Values tailSplits(const Candidate &candidate, const FusionStage &stage) {
  constexpr int64_t kSplit = 4;
  const bool isWorthIt = candidate.chunks() == 1 && !multipliesWhole(candidate) &&
                         candidate.transfers() == Transfers::Pairs &&
                         rowsOfStep(candidate, stage) / kSplit >= kLeastRows;
  return isWorthIt ? Values{1, kSplit} : Values{1};
}

constexpr Variation kVariations[] = {
    {Knob::Stepwise, stepwise},      {Knob::Placement, placements},
    {Knob::Reduction, reductions},   {Knob::Sums, sums},
    {Knob::Streams, streamCounts},   {Knob::Protocol, protocols},
    {Knob::SecondShot, secondShots}, {Knob::Partials, partials},
    {Knob::Chunks, chunkCounts},     {Knob::TailSplit, tailSplits}};

/// Returns the value to store in a candidate, or nullopt for a default value. The knobs in
/// presetFields() are always stored.
std::optional<int64_t> written(Knob knob, int64_t value) {
  const bool isField = llvm::is_contained(presetFields(), knob);
  return isField || value != rowOf(knob).fallback ? std::optional(value) : std::nullopt;
}

/// Replaces each candidate with one candidate per value of the varied knob.
void vary(std::vector<Candidate> &all, const Variation &variation, const FusionStage &stage) {
  std::vector<Candidate> varied;
  for (Candidate candidate : all)
    for (int64_t value : variation.values(candidate, stage))
      varied.push_back(candidate.set(variation.knob, written(variation.knob, value)));
  all = std::move(varied);
}

// The runtime's enums have the same order as the knobs' values, but some begin with Default.
static_assert(int(CopyBy::Kernel) == int(schedule::Copies::Kernel) + 1);
static_assert(int(SignalBy::Kernel) == int(schedule::Signals::Kernel) + 1);
static_assert(int(MemoryFrom::Vmm) == int(schedule::Memory::Vmm) + 1);
static_assert(int(LaunchMode::Graph) == int(schedule::Launch::Graph));

template <class Mode> Mode modeOf(const Configuration &config, Knob knob) {
  return static_cast<Mode>(config.get(knob).value_or(-1) + 1);
}

template <class Mode> std::optional<int64_t> valueOf(Mode mode) {
  return mode == Mode::Default ? std::nullopt : std::optional(static_cast<int64_t>(mode) - 1);
}

} // namespace

CompileOptions applyTo(CompileOptions options, const Configurations &chosen) {
  options.isAuto = false;
  options.schedule.all = chosen.all.over(options.schedule.all);
  if (!chosen.stages.empty())
    options.schedule.stages = chosen.stages;
  return options;
}

TransferMode transferModeOf(const Configuration &config) {
  return {modeOf<CopyBy>(config, Knob::Copies), modeOf<SignalBy>(config, Knob::Signals),
          modeOf<MemoryFrom>(config, Knob::Memory)};
}

LaunchMode launchModeOf(const Configuration &config) {
  return static_cast<LaunchMode>(config.launch());
}

/// Tries three modes: the device's default; copies by kernels, which suit small problems; and copy
/// engines with signals that use stream memory operations, which suit large problems because they
/// occupy no multiprocessor.
std::vector<TransferMode> transferModesOf(llvm::function_ref<bool(TransferMode)> isThere) {
  std::vector<TransferMode> all = {
      {}, {CopyBy::Kernel, SignalBy::Default}, {CopyBy::Engine, SignalBy::Memory}};
  llvm::erase_if(all, [&](TransferMode transferMode) { return !isThere(transferMode); });
  return all;
}

void narrowModes(const Configuration &given, RunModes &modes) {
  if (given.get(Knob::Launch))
    modes.launchModes = {launchModeOf(given)};
  modes.transports = {transportOf(given, modes.transports.front())};
  if (modes.transports.front() == Transport::Messages)
    modes.transferModes = {TransferMode()};
  else if (!transferModeOf(given).movesAs(TransferMode()))
    modes.transferModes = {transferModeOf(given)};
}

std::vector<Candidate> candidatesFor(const Configuration &given, const FusionStage &stage) {
  std::vector<Candidate> all;
  for (const Preset &preset : presets()) {
    const Candidate each = given.over(preset.fields);
    if (!llvm::is_contained(all, each) && keepsSums(each, given, stage))
      all.push_back(each);
  }
  for (const Variation &variation : kVariations)
    if (!given.get(variation.knob))
      vary(all, variation, stage);
  return all;
}

bool areAlike(const Candidate &a, const Candidate &b) {
  return llvm::all_of(allKnobs(), [&](const KnobRow &row) {
    auto valueIn = [&](const Candidate &each) {
      return each.get(row.knob) ? each.get(row.knob) : row.fallback;
    };
    return valueIn(a) == valueIn(b);
  });
}

std::vector<Candidate> inAllModes(const Candidate &candidate, const RunModes &modes) {
  std::vector<Candidate> varied;
  for (TransferMode transferMode : modes.transferModes)
    for (LaunchMode mode : modes.launchModes) {
      Candidate &each = varied.emplace_back(candidate);
      each.set(Knob::Copies, valueOf(transferMode.copies))
          .set(Knob::Signals, valueOf(transferMode.signals))
          .set(Knob::Memory, valueOf(transferMode.memory))
          .set(Knob::Launch, written(Knob::Launch, int64_t(mode)));
    }
  return varied;
}

bool mayDrift(const Candidate &candidate) {
  return takesBlocksInTurn(candidate) && candidate.placement() == Placement::Each &&
         candidate.streams() != 1 && transferModeOf(candidate).copies != CopyBy::Kernel;
}

} // namespace braid
