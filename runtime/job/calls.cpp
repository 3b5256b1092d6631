//===- runtime/job/calls.cpp - detects ranks that make different calls ------------------------===//

#include "runtime/job/calls.h"

#include "runtime/execute/handshake.h"

#include <bit>

namespace braid {
namespace {

/// A recorded call, which fits into one 64-bit value so that readers never see a torn record.
struct Noted {
  uint32_t number = 0;       ///< number of earlier calls that the rank has made
  uint32_t program : 28 = 0; ///< all ones if the call has no program
  JobCall call : 4 = JobCall::None;
};

Noted at(const RankSlot &slot, size_t place) {
  return std::bit_cast<Noted>(slot.calls[place].load(std::memory_order_relaxed));
}

bool isSeen(const RankSlot &slot) {
  return slot.hasUnseenRuns.load(std::memory_order_relaxed) == 0;
}

/// Returns true if the calls differ and at least one is a run. Calls other than runs detect a
/// mismatch themselves when their ranks synchronize.
bool disagree(const Noted &mine, const Noted &other) {
  const bool isSame = mine.call == other.call && mine.program == other.program;
  return other.call != JobCall::None && mine.number == other.number && !isSame &&
         (mine.call == JobCall::Run || other.call == JobCall::Run);
}

std::string describe(const Noted &noted, const Plan *plan) {
  constexpr const char *kNames[] = {
      "",       "run of ",        "preparing ", "choosing a schedule", "freeing memory",
      "commit", "closing the job"};
  const std::string name = noted.call <= JobCall::Close ? kNames[size_t(noted.call)] : "";
  if (noted.call == JobCall::Choose && plan)
    return name + " for @" + plan->program;
  if (noted.call != JobCall::Run && noted.call != JobCall::Prepare)
    return name;
  return name + (plan ? "@" + plan->program : "another program");
}

std::string describeAll(const JobMemory &memory, const KnownPlans &plans, size_t place,
                        uint32_t number) {
  std::vector<std::string> words, texts;
  bool haveTexts = true;
  for (int64_t rank = 0; rank < memory.ranks(); ++rank) {
    Noted noted = at(memory.slot(rank), place);
    if (noted.number != number)
      noted = Noted(); // the rank has not made this call yet
    const Plan *plan = noted.call == JobCall::None ? nullptr : plans.find(rank, noted.program);
    words.push_back(describe(noted, plan));
    texts.push_back(plan ? plan->text : "");
    haveTexts = haveTexts && plan && !plan->text.empty();
  }
  return "expected all ranks to make the same calls in the same order, got" + listByRank(words) +
         (haveTexts ? firstDifference(texts) : "");
}

} // namespace

void noteCall(RankSlot &slot, JobCall call, uint32_t program) {
  const uint32_t number = slot.callCount.fetch_add(1, std::memory_order_relaxed);
  slot.calls[number % kCallEntries].store(std::bit_cast<uint64_t>(Noted{number, program, call}),
                                          std::memory_order_relaxed);
}

std::string describeDisagreement(const JobMemory &memory, const KnownPlans &plans, int64_t rank) {
  const RankSlot &own = memory.slot(rank);
  for (size_t place = 0; isSeen(own) && place < kCallEntries; ++place) {
    const Noted mine = at(own, place);
    for (int64_t peer = 0; mine.call != JobCall::None && peer < memory.ranks(); ++peer) {
      const RankSlot &slot = memory.slot(peer);
      const Noted other = at(slot, place);
      if (memory.isHere(peer) && isSeen(slot) && disagree(mine, other) &&
          other.call != JobCall::Prepare && other.call != JobCall::Choose) // `peer` reports it
        return describeAll(memory, plans, place, mine.number);
    }
  }
  return "";
}

} // namespace braid
