//===- backends/cpu/queue/command_queue.h - commands issued to a worker -----------------------===//
//
// An unbounded single-producer, single-consumer queue: a list of chunks. Publishing a command makes
// the host's earlier writes visible to the worker, and imposes no other order. If the queue also
// ordered workers with each other, or the host after a worker, ThreadSanitizer would consider two
// streams ordered even without a signal between them. For this reason, the consumer frees chunks
// instead of returning them to the producer.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/device.h"
#include "runtime/job/bootstrap/futex.h"

#include <array>
#include <atomic>
#include <new>

namespace braid {

class Operation; // backends/cpu/messages/operation.h

/// A command with its operands.
struct QueuedCommand {
  enum class Kind : uint8_t {
    Copy,
    Matmul,
    Sum,
    Pointwise,
    Store,    ///< stores a value in a flag (signals and events)
    Wait,     ///< waits until a flag has reached a value (signals and events)
    Exchange, ///< a group or a collective, executed in one or more steps
    Stop,     ///< ends the worker
  };
  struct Bytes {
    void *dst;
    const void *src;
    int64_t count;
  };
  struct Flag {
    void *address;
    uint32_t value;
    FutexScope scope; ///< the threads that may wait for the flag
  };
  union Args {
    Bytes bytes;
    MatmulArgs matmul;
    SumArgs sum;
    PointwiseArgs pointwise;
    Flag flag;
    Operation *operation; ///< owned by the command; the queue deletes it on completion
  };

  Kind kind;
  bool isTraced;
  uint32_t stream;
  Tag tag;
  Args args;
};

class CommandQueue {
public:
  CommandQueue() : tail_(new Chunk), head_(tail_) {}
  CommandQueue(const CommandQueue &) = delete;
  CommandQueue &operator=(const CommandQueue &) = delete;
  ~CommandQueue() {
    while (head_)
      enterNextChunk();
  }

  // -- The producer's side. --

  /// Returns false if memory is exhausted. Allocates once per kChunk commands.
  bool push(const QueuedCommand &command) {
    if (tailUsed_ == kChunk && !grow())
      return false;
    tail_->slots[tailUsed_++] = command;
    ++pushed_;
    // Sequentially consistent, so that either this thread sees the sleeper or the sleeper sees the
    // command: the kernel rechecks published_ before it puts the sleeper to sleep.
    published_.store(pushed_, std::memory_order_seq_cst);
    if (isSleeping_.load(std::memory_order_seq_cst))
      futexWake(&published_);
    return true;
  }
  /// Returns the number of commands pushed. Other threads may read a stale value.
  uint32_t published() const { return published_.load(std::memory_order_relaxed); }

  // -- The consumer's side. --

  /// Returns the oldest command, or null if there is none. The pointer is valid until pop().
  const QueuedCommand *front() {
    if (published_.load(std::memory_order_acquire) == popped_)
      return nullptr;
    // The producer links the next chunk before it publishes the chunk's first command.
    if (headUsed_ == kChunk)
      enterNextChunk();
    return &head_->slots[headUsed_];
  }
  void pop() {
    ++popped_;
    ++headUsed_;
  }
  /// Sleeps for at most `slice` while the queue is empty.
  void sleep(std::chrono::milliseconds slice) {
    // Relaxed, because a release store would order this worker before the host's later actions.
    isSleeping_.store(true, std::memory_order_relaxed);
    futexWait(&published_, popped_, slice);
    isSleeping_.store(false, std::memory_order_relaxed);
  }

private:
  static constexpr uint32_t kChunk = 256;
  struct Chunk {
    std::array<QueuedCommand, kChunk> slots;
    Chunk *next = nullptr;
  };

  bool grow() {
    Chunk *chunk = new (std::nothrow) Chunk;
    if (!chunk)
      return false;
    tail_->next = chunk;
    tail_ = chunk;
    tailUsed_ = 0;
    return true;
  }
  void enterNextChunk() {
    Chunk *next = head_->next;
    delete head_;
    head_ = next;
    headUsed_ = 0;
  }

  // Used by the producer.
  Chunk *tail_;
  uint32_t tailUsed_ = 0;
  uint32_t pushed_ = 0; ///< wraps around, like published_
  // Used by the consumer.
  alignas(64) Chunk *head_;
  uint32_t headUsed_ = 0;
  uint32_t popped_ = 0;
  // Shared by both.
  alignas(64) std::atomic<uint32_t> published_{0};
  std::atomic<bool> isSleeping_{false};
};

} // namespace braid
