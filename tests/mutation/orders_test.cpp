//===- tests/mutation/orders_test.cpp - the random orders find races --------------------------===//
//
// The judge relies on the orders that it tries. These tests apply such orders to programs with
// races.
//
//===----------------------------------------------------------------------------------------===//

#include "tests/mutation/judge.h"
#include "tests/mutation/priority_picker.h"
#include "tests/mutation/trial.h"

#include "backends/cpu/cpu_backend.h"

#include <gtest/gtest.h>

namespace braid::test {
namespace {

Case makeSmallCase() {
  Result<Case> made = makeCase({"matmul", 2, "pairwise;protocol=put;streams=2"});
  EXPECT_TRUE(made.isOk()) << made.status().message();
  return std::move(*made);
}

/// Returns the mutants that the checker rejects because of a race.
std::vector<Mutant> racyMutants(const Case &original) {
  std::vector<Mutant> racy;
  forEachMutant(original, [&](Mutant mutant) {
    if (mutant.plans.empty())
      return;
    Result<CheckReport> report = check(mutant.plans, original.fusion, {});
    if (report && report->violation && report->violation->rule == CheckRule::Race &&
        mutant.mutation != "free early")
      racy.push_back(std::move(mutant));
  });
  EXPECT_GT(racy.size(), 20u);
  return racy;
}

TEST(Orders, AProgramWithoutRacesHasOneOrder) {
  Case original = makeSmallCase();
  AllOrders all(10);
  Status status =
      runTrial(original, plansOf(original.program).plans, all, {.alwaysSameAddresses = true});
  EXPECT_TRUE(status.isOk()) << status.message();
  EXPECT_TRUE(all.areComplete());
  EXPECT_EQ(all.orders(), 1u);
}

TEST(Orders, AProgramWithARaceHasSeveral) {
  Case original = makeSmallCase();
  for (const Mutant &mutant : racyMutants(original)) {
    AllOrders all(3);
    Status status =
        runTrial(original, mutant.plans, all, {.compares = false, .alwaysSameAddresses = true});
    EXPECT_TRUE(status.isOk()) << status.message();
    EXPECT_GE(all.orders(), 2u) << mutant.mutation << ": " << mutant.what;
  }
}

/// Returns how many mutants give a wrong result in 20 rounds.
size_t countWrong(const Case &original, llvm::ArrayRef<Mutant> mutants, bool favoursRare) {
  class Rounds final : public Orders {
  public:
    explicit Rounds(bool favours) : favours_(favours) {}
    bool next() override {
      picker_ = favours_ ? priorityPicker(round_, 2, 100) : seededPicker(round_);
      return round_++ < 20;
    }
    size_t pick(llvm::ArrayRef<RunnableHead> candidates) override { return picker_(candidates); }

  private:
    bool favours_;
    uint64_t round_ = 0;
    Picker picker_;
  };
  size_t wrong = 0;
  for (const Mutant &mutant : mutants) {
    Rounds rounds(favoursRare);
    wrong += !runTrial(original, mutant.plans, rounds, {}).isOk();
  }
  return wrong;
}

TEST(Orders, PrioritiesFindMoreThanChance) {
  Case original = makeSmallCase();
  std::vector<Mutant> racy = racyMutants(original);
  size_t byChance = countWrong(original, racy, false), rare = countWrong(original, racy, true);
  std::printf("of %zu races, 20 random orders show %zu, 20 that favour rare ones %zu\n",
              racy.size(), byChance, rare);
  EXPECT_GT(rare, racy.size() / 2);
  EXPECT_GE(rare, byChance);
}

} // namespace
} // namespace braid::test
