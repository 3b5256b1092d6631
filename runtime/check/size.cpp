//===- runtime/check/size.cpp - how much memory a check takes ---------------------------------===//

#include "runtime/check/checker.h"

#include "ir/counted.h"
#include "runtime/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace braid {
namespace {

constexpr size_t kNoClock = ~size_t(0);

template <class T> double bytesOf(const std::vector<T> &list) {
  return static_cast<double>(list.capacity() * sizeof(T));
}

double bytesOf(const std::string &text) { return static_cast<double>(text.capacity()); }

/// When the checker keeps a clock (history.h) for events that somebody still waits for, in issue
/// order.
struct ClockLife {
  size_t first, last;
};

/// A stream's events have one clock in common until the stream waits for something. The n-th signal
/// is thought to be taken when this rank takes its own n-th.
std::vector<ClockLife> clockLives(const Plan &plan) {
  std::vector<ClockLife> lives;
  std::vector<size_t> present(plan.streams.size(), kNoClock), ofRecord(plan.events, kNoClock),
      ofSignal;
  size_t taken = 0;
  for (size_t i = 0; i < plan.commands.size(); ++i) {
    const Command &command = plan.commands[i];
    size_t &clock = present[command.stream];
    const bool isRecord = command.kind == CommandKind::Record;
    if ((isRecord || command.kind == CommandKind::Signal) && clock == kNoClock) {
      clock = lives.size();
      lives.push_back({i, i});
    }
    if (isRecord)
      ofRecord[command.event] = clock;
    else if (command.kind == CommandKind::Signal)
      ofSignal.push_back(clock);
    else if (command.kind == CommandKind::WaitEvent && ofRecord[command.event] != kNoClock)
      lives[ofRecord[command.event]].last = i;
    else if (command.kind == CommandKind::Await && taken < ofSignal.size())
      lives[ofSignal[taken++]].last = i;
    if (command.kind == CommandKind::Await || command.kind == CommandKind::WaitEvent)
      clock = kNoClock;
  }
  return lives;
}

/// The largest number of clocks that are kept at once.
size_t mostClocks(const Plan &plan) {
  std::vector<ptrdiff_t> change(plan.commands.size() + 1);
  for (const ClockLife &life : clockLives(plan)) {
    ++change[life.first];
    --change[life.last];
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return static_cast<size_t>(*std::max_element(change.begin(), change.end()));
}

} // namespace

double memoryOf(const Plan &plan) {
  double bytes = sizeof(Plan) + bytesOf(plan.text) + bytesOf(plan.buffers) + bytesOf(plan.streams) +
                 bytesOf(plan.endpoints) + bytesOf(plan.matmuls) + bytesOf(plan.sums) +
                 bytesOf(plan.pointwise) + bytesOf(plan.preparation) + bytesOf(plan.commands) +
                 bytesOf(plan.releases) + bytesOf(plan.sites) + bytesOf(plan.origins) +
                 bytesOf(plan.trips);
  for (const PlanPointwise &pointwise : plan.pointwise)
    bytes += bytesOf(pointwise.steps);
  for (const Site &site : plan.sites)
    bytes += bytesOf(site.text);
  return bytes;
}

size_t commandsToCheck(const Plan &plan, uint32_t runs) {
  return (plan.commands.size() + plan.releases.size() + 2) * runs + (runs == 1 ? 1 : 0);
}

constexpr double kOfEndpoint = 12; ///< bytes for the partner of an endpoint

/// The numbers were measured with all schedules on 512 ranks, and `pairwise` on 64 to 1,024.
double memoryToCheck(const Plan &plan, uint32_t runs) {
  constexpr double kOfEvent = 42;   ///< in the history, its order, and who waits for it
  constexpr double kOfCommand = 50; ///< bytes per command of a run: the last accesses to its bytes
  const size_t streams = plan.streams.size();
  const double clock = static_cast<double>(plan.ranks) * static_cast<double>(streams) * 4;
  return static_cast<double>(commandsToCheck(plan, runs)) * kOfEvent +
         static_cast<double>(plan.commands.size()) * kOfCommand +
         static_cast<double>(plan.endpoints.size()) * kOfEndpoint +
         static_cast<double>(streams + mostClocks(plan)) * clock;
}

/// The numbers were measured with the examples on 256 to 1,024 ranks.
double memoryToCheckAlike(const Plan &plan, uint32_t runs) {
  constexpr double kOfCommand =
      10;                         ///< bytes per command of a run: the terms in the bytes it writes
  constexpr double kOfTerm = 200; ///< bytes per term that a run computes
  const size_t terms = plan.matmuls.size() + plan.sums.size() + plan.pointwise.size();
  return static_cast<double>(plan.commands.size()) * kOfCommand +
         static_cast<double>(terms) * runs * kOfTerm +
         static_cast<double>(plan.endpoints.size()) * kOfEndpoint;
}

Status expectMemoryToCheck(double bytes, int64_t ranks, uint32_t runs) {
  return expectMemory(
      bytes, fmt::format("checking {} of {} takes", counted(runs, "run"), counted(ranks, "rank")),
      "check fewer runs or ranks");
}

} // namespace braid
