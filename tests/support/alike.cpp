//===- tests/support/alike.cpp - compares two ways of checking equivalent ranks ---------------===//

#include "tests/support/alike.h"

#include "ir/failure.h"
#include "runtime/check/transfers.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <tuple>

namespace braid::test {
namespace {

auto countsOf(const CheckReport &report) {
  return std::tuple(report.queues, report.commands, report.transfers, report.accesses,
                    report.resultChecked, report.orderChecked, report.resultNotChecked);
}

} // namespace

Result<CheckReport> checkBothWays(llvm::ArrayRef<Plan> plans, const Fusion *fusion,
                                  CheckOptions options) {
  options.eachRank = false;
  const CheckReport alike = BRAID_TRY(check(plans, fusion, options));
  options.eachRank = true;
  const CheckReport each = BRAID_TRY(check(plans, fusion, options));
  if (str(alike) == str(each) && (!each.isSafe() || countsOf(alike) == countsOf(each)))
    return alike;
  return Status(StatusCode::Internal,
                fmt::format("as alike ranks: {}\neach for itself: {}", str(alike), str(each)));
}

Result<CheckReport> checkManyBothWays(llvm::ArrayRef<Plan> plans, const Fusion *fusion,
                                      const CheckOptions &options) {
  constexpr uint64_t kShare = 8;
  static const bool isForAll = std::getenv("BRAID_BOTH_WAYS") != nullptr;
  static std::atomic<uint64_t> cases{0};
  return cases++ % kShare == 0 || isForAll ? checkBothWays(plans, fusion, options)
                                           : check(plans, fusion, options);
}

uint32_t periodOf(llvm::ArrayRef<Plan> plans) {
  checker::Partners partners;
  if (checker::matchTransfers(plans, partners, {}))
    return static_cast<uint32_t>(plans.size());
  return static_cast<uint32_t>(checker::findAlike(plans, partners).period);
}

} // namespace braid::test
