//===- runtime/job/bootstrap/host_messages.cpp - what hosts put into their store --------------===//

#include "runtime/job/bootstrap/host_messages.h"

#include "ir/failure.h"

#include "llvm/Support/Endian.h"

#include <algorithm>

namespace braid {
namespace {

namespace endian = llvm::support::endian;

constexpr uint32_t kHostVersion = 6;
constexpr size_t kMaxCauseBytes = size_t(16) << 10;

/// Adds a number to a text, little endian.
template <class Number> void append(std::string &bytes, Number number) {
  char field[sizeof number];
  endian::write<Number, llvm::support::little>(field, number);
  bytes.append(field, sizeof field);
}

/// Takes numbers from the front of a text; zeros once it has come to the end.
class Numbers {
public:
  explicit Numbers(llvm::StringRef &text) : text_(text) {}
  template <class Number> Number take() {
    if (text_.size() < sizeof(Number)) {
      isShort_ = true;
      text_ = {};
      return 0;
    }
    static_assert(sizeof(Number) == 4 || sizeof(Number) == 8);
    const auto number = static_cast<Number>(sizeof(Number) == 4 ? endian::read32le(text_.data())
                                                                : endian::read64le(text_.data()));
    text_ = text_.drop_front(sizeof(Number));
    return number;
  }
  Status status() const {
    return isShort_ ? badInput("expected a text of another host, got the end of it") : Status::ok();
  }

private:
  llvm::StringRef &text_;
  bool isShort_ = false;
};

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
  std::string text;
  append(text, sequence);
  append(text, step);
  append(text, sentNs);
  for (const std::string &part : parts) {
    append(text, static_cast<uint32_t>(part.size()));
    text += part;
  }
  return text;
}

Result<GatheredParts> GatheredParts::decode(llvm::StringRef text, size_t ranks) {
  Numbers numbers(text);
  GatheredParts gathered{.sequence = numbers.take<uint32_t>(),
                         .step = numbers.take<uint32_t>(),
                         .sentNs = numbers.take<uint64_t>()};
  for (size_t rank = 0; rank < ranks; ++rank) {
    const auto size = numbers.take<uint32_t>();
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
  std::string text;
  append(text, cause.rank);
  append(text, static_cast<int32_t>(cause.status.code()));
  return text += cause.status.message().substr(0, kMaxCauseBytes);
}

Result<JobCause> decodeCause(llvm::StringRef text, int64_t ranks) {
  Numbers numbers(text);
  const auto rank = numbers.take<int64_t>();
  const std::optional<StatusCode> code = failureOfCode(numbers.take<int32_t>());
  BRAID_TRY(numbers.status());
  if (!code || rank < -1 || rank >= ranks || text.size() > kMaxCauseBytes)
    return badInput("expected the cause of a failure, got something else");
  return JobCause{Status(*code, text.str()), rank};
}

std::string HostSign::encode() const {
  std::string text;
  append(text, kHostVersion);
  append(text, static_cast<uint32_t>(hasLeft));
  append(text, count);
  append(text, hosts);
  append(text, ranks);
  return text;
}

Result<HostSign> HostSign::decode(llvm::StringRef &text) {
  Numbers numbers(text);
  if (const auto version = numbers.take<uint32_t>(); version != kHostVersion)
    return badInput("expected version {} of a host's sign of life, got {}", kHostVersion, version);
  const auto state = numbers.take<uint32_t>();
  HostSign sign{.count = numbers.take<uint64_t>(),
                .hosts = numbers.take<int64_t>(),
                .ranks = numbers.take<int64_t>(),
                .hasLeft = state == 1};
  BRAID_TRY(numbers.status());
  if (state > 1)
    return badInput("expected a host that is there or has left, got state {}", state);
  return sign;
}

void appendSlots(const JobMemory &memory, int64_t first, int64_t count, int64_t offsetNs,
                 std::string &text) {
  for (int64_t rank = first; rank < first + count; ++rank) {
    const RankSlot &slot = memory.slot(rank);
    const uint32_t queues = std::min(slot.queues.load(std::memory_order_relaxed), kQueueSlots);
    append(text, static_cast<uint32_t>(rank));
    append(text, queues);
    visitSlot(
        slot, queues,
        [&](const auto &field) { append(text, field.load(std::memory_order_relaxed)); },
        [&](const auto &field) {
          append(text, shifted(field.load(std::memory_order_relaxed), offsetNs));
        });
  }
}

namespace {

size_t bytesOfSlot(uint32_t queues) {
  static const RankSlot kNothing{};
  size_t bytes = 0;
  auto size = [&bytes](const auto &field) { bytes += sizeof(field.load()); };
  visitSlot(kNothing, queues, size, size);
  return bytes;
}

void writeSlot(llvm::StringRef text, RankSlot &slot, uint32_t queues, int64_t offsetNs) {
  Numbers numbers(text);
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

} // namespace

Status applySlots(llvm::StringRef text, JobMemory &memory, int64_t offsetNs,
                  llvm::function_ref<bool(int64_t rank)> isTheirs) {
  while (!text.empty()) {
    Numbers numbers(text);
    const auto rank = static_cast<int64_t>(numbers.take<uint32_t>());
    const auto queues = numbers.take<uint32_t>();
    if (rank >= memory.ranks() || queues > kQueueSlots)
      return badInput("expected a rank below {} with at most {} queues, got rank {} with {}",
                      memory.ranks(), kQueueSlots, rank, queues);
    const size_t bytes = bytesOfSlot(queues);
    if (text.size() < bytes)
      return badInput("expected what rank {} does, got the end of the text", rank);
    if (isTheirs(rank))
      writeSlot(text.take_front(bytes), memory.slot(rank), queues, offsetNs);
    text = text.drop_front(bytes);
  }
  return Status::ok();
}

} // namespace braid
