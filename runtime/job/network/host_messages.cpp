//===- runtime/job/network/host_messages.cpp --------------------------------------------------===//

#include "runtime/job/network/host_messages.h"

#include "ir/failure.h"

#include <algorithm>

namespace braid {
namespace {

namespace endian = llvm::support::endian;

constexpr uint32_t kHostVersion = 4;
constexpr size_t kMaxCauseBytes = size_t(16) << 10;

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
    return isShort_ ? badInput("expected a message of another host, got the end of it")
                    : Status::ok();
  }

private:
  llvm::StringRef &text_;
  bool isShort_ = false;
};

Status expectEnd(llvm::StringRef rest) {
  return rest.empty() ? Status::ok()
                      : badInput("expected the end of a message, got {} bytes more", rest.size());
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

std::string HostHello::encode() const {
  std::string body;
  append(body, kHostVersion);
  append(body, hosts);
  append(body, ranks);
  return body;
}

Result<HostHello> HostHello::decode(llvm::StringRef body) {
  Numbers numbers(body);
  if (const auto version = numbers.take<uint32_t>(); version != kHostVersion)
    return badInput("expected version {} of the protocol between hosts, got {}", kHostVersion,
                    version);
  HostHello hello;
  hello.hosts = numbers.take<int64_t>();
  hello.ranks = numbers.take<int64_t>();
  BRAID_TRY(numbers.status());
  BRAID_TRY(expectEnd(body));
  return hello;
}

Frame encodeGathered(FrameKind kind, const GatheredParts &gathered) {
  Frame frame{.kind = kind, .sequence = gathered.sequence};
  append(frame.body, gathered.step);
  frame.body += encodeParts(gathered.parts);
  return frame;
}

Result<GatheredParts> decodeGathered(const Frame &frame, size_t ranks) {
  llvm::StringRef body = frame.body;
  Numbers numbers(body);
  GatheredParts gathered{.sequence = frame.sequence, .step = numbers.take<uint32_t>()};
  BRAID_TRY(numbers.status());
  gathered.parts = BRAID_TRY(decodeParts(body));
  if (gathered.parts.size() != ranks)
    return badInput("expected the parts of {} ranks, got {}", ranks, gathered.parts.size());
  return gathered;
}

std::string encodeCause(const JobCause &cause) {
  std::string body;
  append(body, cause.rank);
  append(body, static_cast<int32_t>(cause.status.code()));
  return body += cause.status.message().substr(0, kMaxCauseBytes);
}

Result<JobCause> decodeCause(llvm::StringRef body, int64_t ranks) {
  Numbers numbers(body);
  const auto rank = numbers.take<int64_t>();
  const std::optional<StatusCode> code = failureOfCode(numbers.take<int32_t>());
  BRAID_TRY(numbers.status());
  if (!code || rank < -1 || rank >= ranks || body.size() > kMaxCauseBytes)
    return badInput("expected the cause of a failure, got something else");
  return JobCause{Status(*code, body.str()), rank};
}

std::string HostPing::encode() const {
  std::string body;
  append(body, sentNs);
  append(body, otherNs);
  return body;
}

Result<HostPing> HostPing::decode(llvm::StringRef body) {
  Numbers numbers(body);
  HostPing ping;
  ping.sentNs = numbers.take<uint64_t>();
  ping.otherNs = numbers.take<uint64_t>();
  BRAID_TRY(numbers.status());
  BRAID_TRY(expectEnd(body));
  return ping;
}

void appendSlots(const JobMemory &memory, int64_t first, int64_t count, int64_t offsetNs,
                 std::string &body) {
  for (int64_t rank = first; rank < first + count; ++rank) {
    const RankSlot &slot = memory.slot(rank);
    const uint32_t queues = std::min(slot.queues.load(std::memory_order_relaxed), kQueueSlots);
    append(body, static_cast<uint32_t>(rank));
    append(body, queues);
    visitSlot(
        slot, queues,
        [&](const auto &field) { append(body, field.load(std::memory_order_relaxed)); },
        [&](const auto &field) {
          append(body, shifted(field.load(std::memory_order_relaxed), offsetNs));
        });
  }
}

Result<int64_t> SlotReader::rank() {
  Numbers numbers(body);
  const auto rank = numbers.take<uint32_t>();
  BRAID_TRY(numbers.status());
  return static_cast<int64_t>(rank);
}

/// Only whole messages are written.
Status SlotReader::fields(RankSlot &slot, int64_t offsetNs) {
  Numbers numbers(body);
  const auto queues = numbers.take<uint32_t>();
  if (queues > kQueueSlots)
    return badInput("expected at most {} queues of a rank, got {}", kQueueSlots, queues);
  auto bytesOfOne = [](uint32_t count) {
    size_t bytes = 0;
    auto size = [&bytes](const auto &field) { bytes += sizeof(field.load()); };
    static const RankSlot kNothing{};
    visitSlot(kNothing, count, size, size);
    return bytes;
  };
  if (body.size() < bytesOfOne(queues))
    return badInput("expected where a rank is, got the end of the message");
  slot.queues.store(queues, std::memory_order_relaxed);
  visitSlot(
      slot, queues,
      [&](auto &field) {
        field.store(numbers.take<decltype(field.load())>(), std::memory_order_relaxed);
      },
      [&](auto &field) {
        field.store(shifted(numbers.take<uint64_t>(), offsetNs), std::memory_order_relaxed);
      });
  return numbers.status();
}

} // namespace braid
