//===- runtime/check/size.cpp - the memory that a check needs ---------------------------------===//

#include "runtime/check/history.h"

#include "ir/counted.h"
#include "ir/failure.h"
#include "runtime/memory_limit.h"

#include <fmt/format.h>

namespace braid {
namespace {

template <class T> double bytesOf(const std::vector<T> &list) {
  return static_cast<double>(list.capacity() * sizeof(T));
}

double bytesOf(const std::string &text) { return static_cast<double>(text.capacity()); }

} // namespace

double memoryOf(const Plan &plan) {
  double bytes = sizeof(Plan) + bytesOf(plan.text) + bytesOf(plan.buffers) + bytesOf(plan.streams) +
                 bytesOf(plan.endpoints) + bytesOf(plan.matmuls) + bytesOf(plan.sums) +
                 bytesOf(plan.pointwise) + bytesOf(plan.commands) + bytesOf(plan.releases) +
                 bytesOf(plan.sites) + bytesOf(plan.origins) + bytesOf(plan.trips);
  for (const PlanPointwise &pointwise : plan.pointwise)
    bytes += bytesOf(pointwise.steps);
  for (const Site &site : plan.sites)
    bytes += bytesOf(site.text);
  return bytes;
}

size_t commandsToCheck(const Plan &plan, uint32_t runs) {
  return (plan.commands.size() + plan.releases.size() + 2) * runs + (runs == 1 ? 1 : 0);
}

namespace {

constexpr double kOfEndpoint = 12; ///< bytes per endpoint, for its partner

/// Returns the number of bytes needed to follow this Plan's rank, excluding the Plan itself. The
/// constants were measured with all schedules on 512 ranks, and with `pairwise` on 64 to 1,024
/// ranks.
double memoryToFollow(const Plan &plan, uint32_t runs) {
  constexpr double kOfEvent = 42;   ///< bytes per event: history, order and waiters
  constexpr double kOfCommand = 50; ///< bytes per command in a run: the last accesses to its bytes
  // Each stream has a clock, and usually at most one other clock with pending waiters (history.h).
  const auto streams = static_cast<double>(plan.streams.size());
  const double clocks = 2 * streams, clock = static_cast<double>(plan.ranks) * streams * 4;
  return static_cast<double>(commandsToCheck(plan, runs)) * kOfEvent +
         static_cast<double>(plan.commands.size()) * kOfCommand +
         static_cast<double>(plan.endpoints.size()) * kOfEndpoint + clocks * clock;
}

/// Like memoryToFollow(), but for a rank that another rank represents, so that only its memory
/// contents are followed. The constants were measured with the examples on 256 to 1,024 ranks.
double memoryOfAlike(const Plan &plan, uint32_t runs) {
  constexpr double kOfCommand = 10; ///< bytes per command in a run: terms for the bytes it writes
  constexpr double kOfTerm = 200;   ///< bytes per term that a run computes
  const size_t terms = plan.matmuls.size() + plan.sums.size() + plan.pointwise.size();
  return static_cast<double>(plan.commands.size()) * kOfCommand +
         static_cast<double>(terms) * runs * kOfTerm +
         static_cast<double>(plan.endpoints.size()) * kOfEndpoint;
}

} // namespace

Status checker::expectRoom(llvm::ArrayRef<Plan> plans, int64_t period, uint32_t runs) {
  double bytes = 0;
  size_t commands = 0;
  for (const Plan &plan : plans.take_front(static_cast<size_t>(period))) {
    bytes += memoryToFollow(plan, runs);
    commands += commandsToCheck(plan, runs);
  }
  for (const Plan &plan : plans.drop_front(static_cast<size_t>(period)))
    bytes += memoryOfAlike(plan, runs);
  const auto ranks = static_cast<int64_t>(plans.size());
  BRAID_TRY(expectMemory(
      bytes, fmt::format("checking {} of {} takes", counted(runs, "run"), counted(ranks, "rank")),
      "check fewer runs or ranks"));
  constexpr size_t kMostCommands = size_t(1) << 28; // event numbers have 32 bits
  if (commands > kMostCommands)
    return unsupported(
        "{} commands of {} in {} runs exceed the checker's limit; check fewer runs or ranks",
        commands, counted(period, "rank"), runs);
  return Status::ok();
}

} // namespace braid
