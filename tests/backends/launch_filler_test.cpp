//===- tests/backends/launch_filler_test.cpp - what of a batch one launch does ----------------===//
//
// Needs no GPU: nothing is launched. Addresses are made up.
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

/// The address of the 64 KiB with that number.
char *at(int64_t number) { return reinterpret_cast<char *>(number << 16); }

/// An all-reduce of `ranks` in two shots: parts are pulled, and sums pushed. Buffers: 1 the parts,
/// 2 the sums' slots, 3 the result, 4 the own parts, and from 10 on those of peers.
struct TwoShots {
  explicit TwoShots(int64_t itsRanks, int64_t offset = 0)
      : ranks(itsRanks), result(at(3) + offset) {
    sum = {DType::BF16,         DType::BF16,      /*elements=*/kPart / 2,
           /*count=*/ranks,     /*stride=*/kPart,
           /*parts=*/at(1),     /*bias=*/nullptr, /*biasElements=*/0,
           /*dst=*/result,      DType::BF16,
           /*keepsParts=*/false};
    add(2 * peers(), CommandKind::Signal, Published::Own); // you may read parts, and write sums
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
    add(peers(), CommandKind::Await, kNothing); // peers have read
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
  std::vector<size_t> steps; ///< steps of each launch; 1 for a command outside launches
  std::vector<CopyAndSignal> launches;
  std::vector<size_t> numbered; ///< flags, in the order in which they were asked for
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
    while (begin + count < steps.size() && !filler.isFull() && filler.take(steps[begin + count]))
      ++count;
    filled.steps.push_back(std::max<size_t>(count, 1));
    filled.launches.push_back(launch);
    begin += filled.steps.back();
  }
  return filled;
}

constexpr LaunchFiller::May kAll = {
    .haveCopies = true, .waitAndWork = true, .add = true, .give = true, .blocks = {}};

TEST(LaunchFiller, MakesOneKernelOfBothShots) {
  for (int64_t ranks : {3, 4, 8}) {
    const TwoShots shots(ranks);
    const Filled filled = fill(shots.steps, kAll);
    ASSERT_THAT(filled.steps, ElementsAre(shots.steps.size())) << ranks;
    const CopyAndSignal &launch = filled.launches[0];
    const auto peers = static_cast<uint32_t>(ranks - 1);
    EXPECT_TRUE(launch.addsAlong);
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

/// Each flag that is taken is asked for once, in the order of the steps, whatever is in one launch.
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
  const size_t first = 3 * 2 + 3 + 2 * 3 + 1 + 1; // up to the sum
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
  may.give = false; // GPUs that cannot add to flags of their peers
  EXPECT_EQ(firstLaunch(TwoShots(4), may), first + 3) << "with the awaits behind the sum";
  may = kAll;
  may.add = false;
  EXPECT_EQ(firstLaunch(TwoShots(4), may), first - 1);
  EXPECT_EQ(firstLaunch(TwoShots(4, /*offset=*/2), kAll), first - 1 + 1)
      << "what nobody adds along is a small sum behind the copies";

  TwoShots local(4); // what gives to this rank itself is no second shot
  for (BatchedCommand &step : local.steps)
    if (step.kind == CommandKind::Copy && step.published == kPeers)
      step.published = kNothing;
  EXPECT_EQ(firstLaunch(local, kAll), first + 3);

  TwoShots onto(4); // a place that other blocks still read as a part
  for (BatchedCommand &step : onto.steps)
    if (step.kind == CommandKind::Copy && step.published == kPeers)
      step.dst = at(1) + kPart / 2;
  EXPECT_EQ(firstLaunch(onto, kAll), first + 3);
}

/// More peers than there is room for.
TEST(LaunchFiller, EndsALaunchThatIsFull) {
  const TwoShots shots(20);
  const Filled filled = fill(shots.steps, kAll);
  EXPECT_GT(filled.steps.size(), 3u);
  size_t flags = 0, copies = 0, sums = 0;
  for (const CopyAndSignal &launch : filled.launches) {
    const CopyAndSignal::SecondShot &second = launch.second;
    for (uint32_t count : {launch.readySignalCount, launch.awaitCount, launch.signalCount,
                           launch.arrivalCount, second.awaitCount, second.signalCount})
      flags += count;
    for (uint32_t count : {launch.copyCount, second.placeCount, second.copyCount})
      copies += count;
    sums += launch.sum.elements != 0;
  }
  const auto countOf = [&](CommandKind kind) {
    return static_cast<size_t>(
        llvm::count_if(shots.steps, [&](const auto &step) { return step.kind == kind; }));
  };
  EXPECT_EQ(flags, countOf(CommandKind::Signal) + countOf(CommandKind::Await));
  EXPECT_EQ(copies, countOf(CommandKind::Copy));
  EXPECT_EQ(sums, countOf(CommandKind::Sum));
}

} // namespace
} // namespace braid::cuda
