//===- tests/backends/launch_filler_test.cpp - dividing a batch into kernel launches ----------===//
//
// Needs no GPU, because nothing is launched and the addresses are fictitious.
//
//===----------------------------------------------------------------------------------------===//

#include "backends/cuda/launch_filler.h"

#include "llvm/ADT/STLExtras.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace braid::cuda {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kPart = 1024; ///< bytes
constexpr auto kPeers = Published::Peers, kNothing = Published::Nothing;

/// Returns the address of the 64 KiB region with this number.
char *at(int64_t number) { return reinterpret_cast<char *>(number << 16); }

/// A two-shot all-reduce that pulls partial results and pushes sums. Buffers: 1 partial results, 2
/// the peers' sums, 3 the result, 4 this rank's partial results, 10 and up peers' partial results.
struct TwoShots {
  explicit TwoShots(int64_t itsRanks, int64_t offset = 0)
      : ranks(itsRanks), result(at(3) + offset) {
    sum = {DType::BF16,         DType::BF16,      /*elements=*/kPart / 2,
           /*count=*/ranks,     /*stride=*/kPart,
           /*parts=*/at(1),     /*bias=*/nullptr, /*biasElements=*/0,
           /*dst=*/result,      DType::BF16,
           /*keepsParts=*/false};
    // The peers may now read partial results and write sums.
    add(2 * peers(), CommandKind::Signal, Published::Own);
    add(peers(), CommandKind::Await, kNothing);
    for (int64_t peer = 1; peer < ranks; ++peer) {
      copy(at(1) + peer * kPart, at(10 + peer), kNothing);
      add(1, CommandKind::Signal, kNothing);
    }
    copy(at(1), at(4), kNothing);
    add(1, CommandKind::Sum, kNothing);
    steps.back().flag = nullptr;
    steps.back().sum = &sum;
    add(peers(), CommandKind::Await, kNothing);
    for (int64_t peer = 1; peer < ranks; ++peer) {
      copy(at(20 + peer), result, kPeers);
      add(1, CommandKind::Signal, kPeers);
    }
    add(peers(), CommandKind::Await, kNothing);
    for (int64_t peer = 1; peer < ranks; ++peer)
      copy(result + peer * kPart, at(2) + peer * kPart, kNothing);
    add(peers(), CommandKind::Await, kNothing); // peers have read the sums
  }

  int64_t peers() const { return ranks - 1; }
  void add(int64_t count, CommandKind kind, Published published) {
    for (int64_t i = 0; i < count; ++i)
      steps.push_back({kind, 0, at(100), nullptr, nullptr, 0, nullptr, published});
  }
  void copy(char *dst, const char *src, Published published) {
    steps.push_back({CommandKind::Copy, 0, nullptr, dst, src, kPart, nullptr, published});
  }

  const int64_t ranks;
  char *const result;
  SumArgs sum = {};
  std::vector<BatchedCommand> steps;
};

struct Filled {
  std::vector<size_t> steps; ///< number of steps in each launch; 1 for a command without a launch
  std::vector<CopyAndSignal> launches;
  std::vector<size_t> numbered; ///< flags in the order in which their numbers were requested
};

Filled fill(const std::vector<BatchedCommand> &steps, LaunchFiller::May may) {
  static uint32_t released = 0;
  Filled filled;
  for (size_t begin = 0; begin < steps.size();) {
    CopyAndSignal launch;
    launch.released = &released;
    const auto numberOf = [&](const BatchedCommand &step) {
      filled.numbered.push_back(static_cast<size_t>(&step - steps.data()));
      return 0u;
    };
    LaunchFiller filler(launch, may, numberOf);
    size_t count = 0;
    while (begin + count < steps.size() && filler.take(steps[begin + count]))
      ++count;
    filled.steps.push_back(std::max<size_t>(count, 1));
    filled.launches.push_back(launch);
    begin += filled.steps.back();
  }
  return filled;
}

constexpr LaunchFiller::May kAll = {.haveCopies = true, .waitAndWork = true, .give = true};

TEST(LaunchFiller, MakesOneKernelOfBothShots) {
  for (int64_t ranks : {3, 4, 8}) {
    const TwoShots shots(ranks);
    const Filled filled = fill(shots.steps, kAll);
    ASSERT_THAT(filled.steps, ElementsAre(shots.steps.size())) << ranks;
    const CopyAndSignal &launch = filled.launches[0];
    const auto peers = static_cast<uint32_t>(ranks - 1);
    EXPECT_EQ(launch.sum.elements, kPart / 2);
    EXPECT_EQ(launch.readySignalCount, 2 * peers);
    EXPECT_EQ(launch.awaitCount, peers);
    EXPECT_EQ(launch.copyCount, peers + 1);
    EXPECT_EQ(launch.signalCount, peers);
    EXPECT_EQ(launch.second.awaitCount, peers);
    EXPECT_EQ(launch.second.placeCount, peers);
    EXPECT_EQ(launch.second.signalCount, peers);
    EXPECT_EQ(launch.arrivalCount, 2 * peers);
    EXPECT_EQ(launch.second.copyCount, peers);
    EXPECT_EQ(launch.second.places[0], at(21));
    EXPECT_EQ(launch.second.copies[0].src, at(2) + kPart);
  }
}

/// Each flag's number is requested once, in step order, regardless of the division into launches.
TEST(LaunchFiller, NumbersFlagsOnceInTheirOrder) {
  const TwoShots shots(4);
  std::vector<size_t> flags;
  for (size_t i = 0; i < shots.steps.size(); ++i)
    if (shots.steps[i].flag)
      flags.push_back(i);
  LaunchFiller::May few = kAll;
  few.haveCopies = few.give = false;
  LaunchFiller::May apart = kAll;
  apart.waitAndWork = false;
  for (const LaunchFiller::May &may : {kAll, few, apart})
    EXPECT_EQ(fill(shots.steps, may).numbered, flags);
}

TEST(LaunchFiller, KeepsShotsApartWhereItMust) {
  const size_t first = 3 * 2 + 3 + 2 * 3 + 1 + 1; // steps up to and including the sum
  auto firstLaunch = [](const TwoShots &shots, LaunchFiller::May may) {
    const Filled filled = fill(shots.steps, may);
    EXPECT_GT(filled.steps.size(), 1u);
    EXPECT_EQ(std::accumulate(filled.steps.begin(), filled.steps.end(), size_t(0)),
              shots.steps.size());
    for (const CopyAndSignal &launch : filled.launches)
      EXPECT_EQ(launch.second.placeCount, 0u);
    return filled.steps[0];
  };
  LaunchFiller::May may = kAll;
  may.give = false; // for GPUs that cannot add to flags of their peers
  EXPECT_EQ(firstLaunch(TwoShots(4), may), first + 3) << "with the awaits behind the sum";
  EXPECT_EQ(firstLaunch(TwoShots(4, /*offset=*/2), kAll), first - 1)
      << "a sum of other groups than the copies have is a kernel of its own";

  TwoShots local(4); // a copy to this rank's memory is not a second shot
  for (BatchedCommand &step : local.steps)
    if (step.kind == CommandKind::Copy && step.published == kPeers)
      step.published = kNothing;
  EXPECT_EQ(firstLaunch(local, kAll), first + 3);

  TwoShots onto(4); // overlaps a partial result that other blocks still read
  for (BatchedCommand &step : onto.steps)
    if (step.kind == CommandKind::Copy && step.published == kPeers)
      step.dst = at(1) + kPart / 2;
  EXPECT_EQ(firstLaunch(onto, kAll), first + 3);
}

/// The number of peers exceeds the capacity of one launch.
TEST(LaunchFiller, EndsALaunchThatIsFull) {
  const TwoShots shots(20);
  const Filled filled = fill(shots.steps, kAll);
  EXPECT_GT(filled.steps.size(), 3u);
  size_t flags = 0, copies = 0;
  for (const CopyAndSignal &launch : filled.launches) {
    const CopyAndSignal::SecondShot &second = launch.second;
    for (uint32_t count : {launch.readySignalCount, launch.awaitCount, launch.signalCount,
                           launch.arrivalCount, second.awaitCount, second.signalCount})
      flags += count;
    for (uint32_t count : {launch.copyCount, second.placeCount, second.copyCount})
      copies += count;
    EXPECT_EQ(launch.sum.elements, 0) << "no kernel copies as many parts";
  }
  const auto countOf = [&](CommandKind kind) {
    return static_cast<size_t>(
        llvm::count_if(shots.steps, [&](const auto &step) { return step.kind == kind; }));
  };
  EXPECT_EQ(flags, countOf(CommandKind::Signal) + countOf(CommandKind::Await));
  EXPECT_EQ(copies, countOf(CommandKind::Copy));
}

} // namespace
} // namespace braid::cuda
