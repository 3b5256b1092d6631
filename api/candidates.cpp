//===- api/candidates.cpp - which ways to run a fusion are worth a look -----------------------===//

#include "api/candidates.h"

#include "lowering/wave_cuts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <set>

namespace braid {
namespace {

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

/// Where two streams are for transfers alone, products are on one stream or on two: which of both
/// is better is not known from the schedule, and decides the most where power limits.
std::vector<int64_t> streamCounts(const Candidate &candidate) {
  const bool areApart =
      candidate.transfers == Transfers::Shared || candidate.schedule == Schedule::Doubling;
  return areApart ? std::vector<int64_t>{3, 4} : std::vector<int64_t>{LoweringOptions().streams};
}

/// Under `doubling` all from 2 on are the same.
std::vector<int64_t> tapersOf(Schedule schedule) {
  return schedule == Schedule::Doubling ? std::vector<int64_t>{1, 2}
                                        : std::vector<int64_t>{1, 2, 4};
}

/// Puts in place of each candidate one with each value of `field` that `valuesFor` it has.
template <class T, class ValuesFor>
void varyBy(std::vector<Candidate> &all, T Candidate::*field, ValuesFor valuesFor) {
  std::vector<Candidate> varied;
  for (Candidate candidate : all)
    for (T value : valuesFor(candidate)) {
      candidate.*field = value;
      varied.push_back(candidate);
    }
  all = std::move(varied);
}

template <class T>
void vary(std::vector<Candidate> &all, T Candidate::*field, const std::vector<T> &values) {
  varyBy(all, field, [&](const Candidate &) { return values; });
}

} // namespace

/// Kernels for small problems, nothing that needs a processor for large ones (in graphs, too), and
/// what the device would do.
std::vector<TransferMeans> meansOf(const Device &device) {
  std::vector<TransferMeans> all = {
      {}, {CopyBy::Kernel, SignalBy::Default}, {CopyBy::Engine, SignalBy::Memory}};
  llvm::erase_if(all, [&](TransferMeans means) { return !device.offers(means); });
  return all;
}

int64_t waveRowsOf(int64_t tilesAtOnce, int64_t columns) {
  constexpr int64_t kTileColumns = 256;
  const int64_t tilesInARow = std::max<int64_t>((columns + kTileColumns - 1) / kTileColumns, 1);
  return tilesAtOnce * kTileRows / tilesInARow;
}

double mayTake(const Candidate &candidate, int64_t ranks, bool hasCopyEngines) {
  constexpr double kOtherMode = 1.2;
  const bool drifts = candidate.schedule == Schedule::Pairwise &&
                      candidate.transfers == Transfers::Each && candidate.streams != 1 &&
                      candidate.means.copies != CopyBy::Kernel;
  return hasCopyEngines && drifts && ranks > 2 ? kOtherMode : 1;
}

std::vector<Candidate> broadCandidates(const CandidateSpace &space) {
  const CompileOptions &given = space.given;
  Candidate first;
  first.taper = given.taper.value_or(1);
  first.waveRows = given.waveRows.value_or(0);
  std::vector<Candidate> all = {first};
  vary(all, &Candidate::schedule, only(given.schedule, allSchedules().vec()));
  varyBy(all, &Candidate::transfers, [&](const Candidate &candidate) {
    return candidate.schedule == Schedule::Pairwise
               ? only(given.transfers, {Transfers::Each, Transfers::Shared})
               : std::vector<Transfers>{given.transfers.value_or(Transfers::Each)};
  });
  varyBy(all, &Candidate::streams,
         [&](const Candidate &candidate) { return only(given.streams, streamCounts(candidate)); });
  vary(all, &Candidate::protocol, only(given.protocol, {Protocol::Get, Protocol::Put}));
  varyBy(all, &Candidate::chunks, [&](const Candidate &candidate) {
    return only(given.chunks, multipliesWhole(candidate.schedule)
                                  ? std::vector<int64_t>{0}
                                  : chunkCounts(space.ranks, space.blockRows));
  });
  vary(all, &Candidate::means, space.means.vec());
  vary(all, &Candidate::issuing, space.ways.vec());
  return all;
}

std::vector<Candidate> worthVariants(llvm::ArrayRef<Candidate> bestFirst) {
  constexpr size_t kFamilies = 8, kChunkCounts = 2;
  std::map<std::array<std::string, 3>, std::set<int64_t>> seen;
  std::vector<Candidate> worth;
  for (const Candidate &each : bestFirst) {
    const std::array<std::string, 3> family = each.traits();
    if (seen.size() == kFamilies && !seen.count(family))
      continue;
    std::set<int64_t> &chunkCounts = seen[family];
    if (chunkCounts.size() < kChunkCounts && chunkCounts.insert(each.chunks).second)
      worth.push_back(each);
  }
  return worth;
}

std::vector<Candidate> variantsOf(const Candidate &candidate, const CompileOptions &given,
                                  int64_t waveRows) {
  std::vector<Candidate> all = {candidate};
  vary(all, &Candidate::streams, only(given.streams, {1, 2, 3, 4, 5, 8}));
  if (candidate.schedule == Schedule::Doubling)
    vary(all, &Candidate::waveRows,
         only(given.waveRows,
              waveRows == 0 ? std::vector<int64_t>{0} : std::vector<int64_t>{0, waveRows}));
  if (!multipliesWhole(candidate.schedule))
    vary(all, &Candidate::taper, only(given.taper, tapersOf(candidate.schedule)));
  return all;
}

} // namespace braid
