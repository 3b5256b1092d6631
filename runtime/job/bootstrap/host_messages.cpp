//===- runtime/job/bootstrap/host_messages.cpp - the format of the values in the hosts' store -===//

#include "runtime/job/bootstrap/host_messages.h"

#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace braid {
namespace {

constexpr size_t kMaxCauseBytes = size_t(16) << 10;

/// Removes a number and the separator that follows it from the front of `text`.
template <class Number> Result<Number> takeNumber(llvm::StringRef &text) {
  Number number = 0;
  if (text.consumeInteger(10, number) || (!text.consume_front(" ") && !text.consume_front("\n")))
    return badInput("malformed message from another host: expected numbers");
  return number;
}

/// Calls `visit(atomic, isTime)` for each field of a slot that other hosts need.
template <class Slot, class Visit> void visitSlot(Slot &slot, uint32_t queues, Visit visit) {
  const auto times = [&](auto &...fields) { (visit(fields, true), ...); };
  const auto others = [&](auto &...fields) { (visit(fields, false), ...); };
  others(slot.state, slot.activity);
  times(slot.activitySinceNs, slot.heartbeatNs);
  others(slot.issued, slot.arrivals, slot.completedBeyond, slot.runs);
  for (uint32_t i = 0; i < queues; ++i) {
    auto &queue = slot.queue[i];
    others(queue.completed, queue.current);
    times(queue.sinceNs);
    others(queue.isWaiting, queue.flagValue, queue.wantedValue, queue.lastDone);
  }
}

/// Converts a time to an age, or an age to a time. 0 means "no time" in both forms.
uint64_t ageOf(uint64_t time) { return time == 0 ? 0 : monotonicNs() - time + 1; }

void appendSlot(const RankSlot &slot, std::string &text) {
  const uint32_t queues = std::min(slot.queues.load(std::memory_order_relaxed), kQueueSlots);
  text += std::to_string(queues) + ' ';
  visitSlot(slot, queues, [&](const auto &field, bool isTime) {
    const auto number = static_cast<uint64_t>(field.load(std::memory_order_relaxed));
    text += std::to_string(isTime ? ageOf(number) : number) + ' ';
  });
}

Status takeSlot(llvm::StringRef &text, RankSlot &slot) {
  const auto queues = BRAID_TRY(takeNumber<uint32_t>(text));
  if (queues > kQueueSlots)
    return badInput("expected a rank with at most {} queues, got {}", kQueueSlots, queues);
  slot.queues.store(queues, std::memory_order_relaxed);
  Status status;
  visitSlot(slot, queues, [&](auto &field, bool isTime) {
    const Result<uint64_t> number = takeNumber<uint64_t>(text);
    if (number)
      field.store(static_cast<decltype(field.load())>(isTime ? ageOf(*number) : *number),
                  std::memory_order_relaxed);
    else
      status = number.status();
  });
  return status;
}

} // namespace

Result<std::string> encodeParts(const JobMemory &memory, uint32_t round) {
  const Ranks ranks = memory.ranksOf(memory.host());
  std::string text = fmt::format("{} {} ", round, memory.leastStep(ranks, round)), bytes;
  for (const std::string &part : BRAID_TRY(memory.parts(ranks, round))) {
    text += std::to_string(part.size()) + ' ';
    bytes += part;
  }
  return text + bytes;
}

Status takeParts(llvm::StringRef text, JobMemory &memory, int64_t host, uint32_t round) {
  const auto number = BRAID_TRY(takeNumber<uint32_t>(text));
  const auto step = BRAID_TRY(takeNumber<uint32_t>(text));
  const Ranks ranks = memory.ranksOf(host);
  std::vector<uint64_t> sizes(static_cast<size_t>(ranks.count));
  for (uint64_t &size : sizes)
    if (size = BRAID_TRY(takeNumber<uint64_t>(text)); size > text.size())
      return badInput("expected {} bytes of all-gather data, got {}", size, text.size());
  if (text.size() != std::accumulate(sizes.begin(), sizes.end(), uint64_t(0)))
    return badInput("the all-gather data of {} ranks has an unexpected size of {} bytes",
                    ranks.count, text.size());
  if (number == round)
    for (const auto &[rank, size] : llvm::zip(ranks, sizes)) {
      BRAID_TRY(memory.bring(rank, round, text.take_front(size).str(), step));
      text = text.drop_front(size);
    }
  return Status::ok();
}

std::string encodeCause(const JobCause &cause) {
  return fmt::format("{} {}\n{}", cause.rank, static_cast<int32_t>(cause.status.code()),
                     cause.status.message().substr(0, kMaxCauseBytes));
}

Result<JobCause> decodeCause(llvm::StringRef text, int64_t ranks) {
  const auto rank = BRAID_TRY(takeNumber<int64_t>(text));
  const std::optional<StatusCode> code = failureOfCode(BRAID_TRY(takeNumber<int32_t>(text)));
  if (!code || rank < -1 || rank >= ranks || text.size() > kMaxCauseBytes)
    return badInput("malformed message from another host: expected the cause of a failure");
  return JobCause{Status(*code, text.str()), rank};
}

std::string encodeSign(const HostSign &sign, const JobMemory &memory) {
  std::string text = fmt::format("{} {:d} ", sign.number, sign.hasLeft);
  for (int64_t rank : memory.ranksOf(memory.host()))
    appendSlot(memory.slot(rank), text);
  return text;
}

Result<HostSign> takeSign(llvm::StringRef text, JobMemory &memory, int64_t host, uint64_t known) {
  HostSign sign{.number = BRAID_TRY(takeNumber<uint64_t>(text))};
  sign.hasLeft = BRAID_TRY(takeNumber<uint32_t>(text)) != 0;
  if (sign.number != known)
    for (int64_t rank : memory.ranksOf(host))
      BRAID_TRY(takeSlot(text, memory.slot(rank)));
  return sign;
}

} // namespace braid
