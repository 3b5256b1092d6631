//===- runtime/job/bootstrap/host_messages.cpp - the values in the store of a job's hosts -----===//

#include "runtime/job/bootstrap/host_messages.h"

#include "ir/failure.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid {
namespace {

constexpr size_t kMaxCauseBytes = size_t(16) << 10;

/// Parses numbers separated by blanks from the front of a text.
class Numbers {
public:
  explicit Numbers(llvm::StringRef text) : text_(text) {}
  /// Returns zero if there is no number; status() is then a failure.
  template <class Number> Number take() {
    Number number = 0;
    const auto [first, rest] = text_.split(' ');
    isGood_ &= !first.getAsInteger(10, number);
    text_ = rest;
    return number;
  }
  Status status() const {
    return isGood_ ? Status::ok() : badInput("expected numbers of another host, got another text");
  }

private:
  llvm::StringRef text_;
  bool isGood_ = true;
};

/// Removes and returns the first line of `text`.
llvm::StringRef takeLine(llvm::StringRef &text) {
  const auto [line, rest] = text.split('\n');
  text = rest;
  return line;
}

/// Visits all numbers of a slot except the process id, as `visit(atomic,
/// isTime)`.
template <class Slot, class Visit> void visitSlot(Slot &slot, uint32_t queues, Visit visit) {
  visit(slot.state, false);
  visit(slot.activity, false);
  visit(slot.activitySinceNs, true);
  visit(slot.heartbeatNs, true);
  visit(slot.issued, false);
  visit(slot.arrivals, false);
  visit(slot.completedBeyond, false);
  visit(slot.runs, false);
  visit(slot.closed, false);
  visit(slot.isKilled, false);
  for (uint32_t i = 0; i < queues; ++i) {
    auto &queue = slot.queue[i];
    visit(queue.completed, false);
    visit(queue.current, false);
    visit(queue.sinceNs, true);
    visit(queue.isWaiting, false);
    visit(queue.flagValue, false);
    visit(queue.wantedValue, false);
    visit(queue.lastDone, false);
  }
}

void appendSlot(const RankSlot &slot, std::string &text) {
  const uint32_t queues = std::min(slot.queues.load(std::memory_order_relaxed), kQueueSlots);
  text += std::to_string(queues);
  visitSlot(slot, queues, [&](const auto &field, bool) {
    text += fmt::format(" {}", static_cast<uint64_t>(field.load(std::memory_order_relaxed)));
  });
  text += '\n';
}

/// A time of zero means none.
Status takeSlot(llvm::StringRef line, RankSlot &slot, int64_t shiftNs) {
  Numbers numbers(line);
  const auto queues = numbers.take<uint32_t>();
  if (queues > kQueueSlots)
    return badInput("expected a rank with at most {} queues, got {}", kQueueSlots, queues);
  slot.queues.store(queues, std::memory_order_relaxed);
  visitSlot(slot, queues, [&](auto &field, bool isTime) {
    using Field = decltype(field.load());
    auto number = numbers.take<uint64_t>();
    if (isTime && number != 0)
      number += static_cast<uint64_t>(shiftNs);
    field.store(static_cast<Field>(number), std::memory_order_relaxed);
  });
  return numbers.status();
}

} // namespace

Result<std::string> encodeParts(const JobMemory &memory, uint32_t round) {
  const Ranks ranks = memory.ranksOf(memory.host());
  std::string text = fmt::format("{} {}", round, memory.leastStep(ranks, round)), bytes;
  for (const std::string &part : BRAID_TRY(memory.parts(ranks, round))) {
    text += fmt::format(" {}", part.size());
    bytes += part;
  }
  return text + '\n' + bytes;
}

Status takeParts(llvm::StringRef text, JobMemory &memory, int64_t host, uint32_t round) {
  Numbers numbers(takeLine(text));
  const auto number = numbers.take<uint32_t>(), step = numbers.take<uint32_t>();
  const Ranks ranks = memory.ranksOf(host);
  std::vector<std::string> parts;
  for (int64_t i = 0; i < ranks.count; ++i) {
    const auto size = numbers.take<uint64_t>();
    BRAID_TRY(numbers.status());
    if (size > text.size())
      return badInput("expected a part of {} bytes, got {}", size, text.size());
    parts.push_back(text.take_front(size).str());
    text = text.drop_front(size);
  }
  if (!text.empty())
    return badInput("expected the parts of {} ranks, got {} more bytes", ranks.count, text.size());
  for (int64_t i = 0; number == round && i < ranks.count; ++i)
    BRAID_TRY(memory.bring(ranks.first + i, round, parts[static_cast<size_t>(i)], step));
  return Status::ok();
}

std::string encodeCause(const JobCause &cause) {
  return fmt::format("{} {}\n{}", cause.rank, static_cast<int32_t>(cause.status.code()),
                     cause.status.message().substr(0, kMaxCauseBytes));
}

Result<JobCause> decodeCause(llvm::StringRef text, int64_t ranks) {
  Numbers numbers(takeLine(text));
  const auto rank = numbers.take<int64_t>();
  const std::optional<StatusCode> code = failureOfCode(numbers.take<int32_t>());
  BRAID_TRY(numbers.status());
  if (!code || rank < -1 || rank >= ranks || text.size() > kMaxCauseBytes)
    return badInput("expected the cause of a failure, got another text");
  return JobCause{Status(*code, text.str()), rank};
}

std::string encodeSign(bool hasLeft, const JobMemory &memory) {
  std::string text = fmt::format("{} {:d}\n", monotonicNs(), hasLeft);
  const Ranks ranks = memory.ranksOf(memory.host());
  for (int64_t i = 0; i < ranks.count; ++i)
    appendSlot(memory.slot(ranks.first + i), text);
  return text;
}

Result<HostSign> takeSign(llvm::StringRef text, JobMemory &memory, int64_t host, int64_t &shiftNs) {
  Numbers numbers(takeLine(text));
  HostSign sign{.sentNs = numbers.take<uint64_t>()};
  sign.hasLeft = numbers.take<uint32_t>() != 0;
  BRAID_TRY(numbers.status());
  shiftNs = std::min(shiftNs, static_cast<int64_t>(monotonicNs() - sign.sentNs));
  const Ranks ranks = memory.ranksOf(host);
  for (int64_t i = 0; i < ranks.count; ++i)
    BRAID_TRY(takeSlot(takeLine(text), memory.slot(ranks.first + i), shiftNs));
  return sign;
}

} // namespace braid
