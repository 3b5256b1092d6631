//===- runtime/job/bootstrap/host_messages.cpp - what hosts put into their store --------------===//

#include "runtime/job/bootstrap/host_messages.h"

#include "ir/failure.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid {
namespace {

constexpr uint32_t kHostVersion = 7;
constexpr size_t kMaxCauseBytes = size_t(16) << 10;

/// Takes numbers, with blanks between them, from the front of a text.
class Numbers {
public:
  explicit Numbers(llvm::StringRef text) : text_(text) {}
  /// Zero if there is none; status() fails from then on.
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

/// The first line of `text`, which loses it.
llvm::StringRef takeLine(llvm::StringRef &text) {
  const auto [line, rest] = text.split('\n');
  text = rest;
  return line;
}

/// A time of zero means none.
uint64_t shifted(uint64_t ns, int64_t offset) {
  return ns == 0 ? 0 : ns + static_cast<uint64_t>(offset);
}

/// All of a slot but the process and the flight ring: `field(atomic)` and `time(atomic)`.
template <class Slot, class Field, class Time>
void visitSlot(Slot &slot, uint32_t queues, Field field, Time time) {
  field(slot.state);
  field(slot.activity);
  time(slot.activitySinceNs);
  time(slot.heartbeatNs);
  field(slot.issued);
  field(slot.arrivals);
  field(slot.completedBeyond);
  field(slot.runs);
  field(slot.isSpeaking);
  field(slot.closed);
  field(slot.isKilled);
  for (uint32_t i = 0; i < queues; ++i) {
    auto &queue = slot.queue[i];
    field(queue.completed);
    field(queue.current);
    time(queue.sinceNs);
    field(queue.isWaiting);
    field(queue.flagValue);
    field(queue.wantedValue);
    field(queue.lastDone);
  }
}

} // namespace

std::string GatheredParts::encode() const {
  std::string text = fmt::format("{} {}", sequence, step);
  for (const std::string &part : parts)
    text += fmt::format(" {}", part.size());
  text += '\n';
  for (const std::string &part : parts)
    text += part;
  return text;
}

Result<GatheredParts> GatheredParts::decode(llvm::StringRef text, size_t ranks) {
  Numbers numbers(takeLine(text));
  GatheredParts gathered{.sequence = numbers.take<uint32_t>(), .step = numbers.take<uint32_t>()};
  for (size_t rank = 0; rank < ranks; ++rank) {
    const auto size = numbers.take<uint64_t>();
    BRAID_TRY(numbers.status());
    if (size > text.size())
      return badInput("expected a part of {} bytes, got {}", size, text.size());
    gathered.parts.push_back(text.take_front(size).str());
    text = text.drop_front(size);
  }
  if (!text.empty())
    return badInput("expected the parts of {} ranks, got {} more bytes", ranks, text.size());
  return gathered;
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

std::string HostSign::encode() const {
  return fmt::format("{} {:d} {} {} {}\n", kHostVersion, hasLeft, count, hosts, ranks);
}

Result<HostSign> HostSign::decode(llvm::StringRef &text) {
  Numbers numbers(takeLine(text));
  if (const auto version = numbers.take<uint32_t>(); version != kHostVersion)
    return badInput("expected version {} of a host's sign of life, got {}", kHostVersion, version);
  HostSign sign{.hasLeft = numbers.take<uint32_t>() != 0};
  sign.count = numbers.take<uint64_t>();
  sign.hosts = numbers.take<int64_t>();
  sign.ranks = numbers.take<int64_t>();
  BRAID_TRY(numbers.status());
  return sign;
}

void appendSlots(const JobMemory &memory, Ranks ranks, int64_t offsetNs, std::string &text) {
  auto append = [&text](uint64_t number) { text += fmt::format(" {}", number); };
  for (int64_t rank = ranks.first; rank < ranks.first + ranks.count; ++rank) {
    const RankSlot &slot = memory.slot(rank);
    const uint32_t queues = std::min(slot.queues.load(std::memory_order_relaxed), kQueueSlots);
    text += fmt::format("{} {}", rank, queues);
    visitSlot(
        slot, queues, [&](const auto &field) { append(field.load(std::memory_order_relaxed)); },
        [&](const auto &field) {
          append(shifted(field.load(std::memory_order_relaxed), offsetNs));
        });
    text += '\n';
  }
}

static void readSlot(Numbers &numbers, RankSlot &slot, uint32_t queues, int64_t offsetNs) {
  slot.queues.store(queues, std::memory_order_relaxed);
  visitSlot(
      slot, queues,
      [&](auto &field) {
        field.store(numbers.take<decltype(field.load())>(), std::memory_order_relaxed);
      },
      [&](auto &field) {
        field.store(shifted(numbers.take<uint64_t>(), offsetNs), std::memory_order_relaxed);
      });
}

Status applySlots(llvm::StringRef text, JobMemory &memory, int64_t offsetNs,
                  llvm::function_ref<bool(int64_t rank)> isTheirs) {
  while (!text.empty()) {
    Numbers numbers(takeLine(text));
    const auto rank = numbers.take<int64_t>();
    const auto queues = numbers.take<uint32_t>();
    if (rank < 0 || rank >= memory.ranks() || queues > kQueueSlots)
      return badInput("expected a rank below {} with at most {} queues, got rank {} with {}",
                      memory.ranks(), kQueueSlots, rank, queues);
    if (isTheirs(rank))
      readSlot(numbers, memory.slot(rank), queues, offsetNs);
    BRAID_TRY(numbers.status());
  }
  return Status::ok();
}

} // namespace braid
