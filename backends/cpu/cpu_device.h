//===- backends/cpu/cpu_device.h - one rank's memory and queues -------------------------------===//
#pragma once

#include "backends/cpu/queue/hardware_queue.h"
#include "runtime/execute/event_ranges.h"
#include "runtime/execute/host_memory.h"

#include <deque>
#include <map>
#include <memory>

namespace braid {

using QueueList = std::vector<HardwareQueue *>;

class CpuDevice final : public Device,
                        public Compute,
                        public PeerMemory,
                        public Messages,
                        public Graphs,
                        public Tracer {
public:
  struct Options {
    int64_t rank;
    uint32_t queues;                     ///< as ClusterOptions::queues
    bool hasWorkers;                     ///< false: a scheduler runs the queues
    CommandObserver *observer = nullptr; ///< outlives the device
    bool isReproducible = false;         ///< as ClusterOptions::reproducible
  };
  /// `openMessages` is called by openTeams().
  CpuDevice(RankGroup &group, Options options, MessageLink::Open openMessages);

  Compute &compute() override { return *this; }
  PeerMemory *peerMemory() override { return this; }
  Messages *messages() override { return this; }
  Graphs *graphs() override { return this; }
  Tracer *tracer() override { return this; }
  Result<void *> allocate(ArenaKind kind, int64_t bytes) override {
    return memory_.allocate(kind, bytes);
  }
  Status reserveStreams(uint32_t count) override;
  Result<uint32_t> createEvents(uint32_t count) override;
  void release(void *base) override { memory_.release(base); }
  void releaseEvents(uint32_t first) override { ranges_.release(first); }
  void recycle() override { memory_.recycle(); }
  int64_t heldBytes() override { return memory_.heldBytes(); }
  Result<void *> callerStream(uint32_t number) override;
  void undoCallerStream(uint32_t number) override;
  Status setCallerStream(void *stream, Tag tag) override;

  void copy(uint32_t stream, Tag tag, void *dst, const void *src, int64_t bytes) override;
  void record(uint32_t stream, Tag tag, uint32_t event) override;
  void waitEvent(uint32_t stream, Tag tag, uint32_t event) override;
  bool mark(int64_t number) override {
    lastMark_ = number;
    return true;
  }
  int64_t passedMarks() override { return passed_ = isDrained() ? lastMark_ : passed_; }
  Status synchronize() override;

  bool isReproducible() const override { return options_.isReproducible; }
  std::string choices() const override;
  Status warm(const PlanMatmul &shape) override;
  void matmul(uint32_t stream, Tag tag, const MatmulArgs &args) override;
  void sum(uint32_t stream, Tag tag, const SumArgs &args) override;
  void pointwise(uint32_t stream, Tag tag, const PointwiseArgs &args) override;

  Result<std::string> exportMemory(void *base) override { return memory_.exportMemory(base); }
  Result<void *> open(int64_t peer, const std::string &handle) override {
    return memory_.open(peer, handle);
  }
  void issueBatch(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps, bool areDisjoint,
                  TransferMode mode) override;

  Status openTeams(llvm::ArrayRef<Team> teams, ControlPlane &control, TransferMode) override;
  bool connectsLater() const override { return false; }
  void group(uint32_t stream, Tag tag, llvm::ArrayRef<MessageArgs> messages) override;
  void collective(uint32_t stream, Tag tag, const CollectiveArgs &args) override;

  // Captures let callers try on CPU ranks what they will do on GPUs; they save nothing here.
  Status beginCapture() override;
  Result<uint32_t> endCapture() override {
    recording_ = nullptr;
    return nextGraph_++;
  }
  void launch(uint32_t graph, Tag tag) override;
  void releaseGraph(uint32_t graph) override { graphs_.erase(graph); }
  /// Recorded commands refer to addresses only.
  uint64_t allocationOf(const void *) override { return 1; }

  void startTrace() override { isTracing_ = true; }
  std::vector<Span> takeTrace() override;

  // -- For the cluster, from any thread. --

  /// All queues; grows while the rank prepares, and a list stays valid.
  const QueueList &queues() const { return *published_.load(std::memory_order_acquire); }
  /// Ends the workers; the group has been aborted, or isDrained().
  void stop();
  /// As stop(), but false if some worker does not end for so long: then it goes on with this
  /// device, which must never be destroyed.
  bool stopWithin(std::chrono::milliseconds patience);
  /// Everything issued is done, or dropped after an abort. For the rank's host thread.
  bool isDrained() const;

private:
  using Kind = QueuedCommand::Kind;
  Status addQueue();
  void publishQueues();
  uint32_t queueOf(uint32_t stream) const {
    return options_.queues != 0 ? stream % options_.queues
           : stream == 0        ? callersQueue_
                                : streamQueues_[stream];
  }
  void issue(uint32_t stream, Tag tag, Kind kind, const QueuedCommand::Args &args);
  void issue(uint32_t stream, Tag tag, IssuedMessages messages);
  /// Without workers nobody sleeps.
  FutexScope scopeOf(FutexScope scope) const {
    return options_.hasWorkers ? scope : FutexScope::Nobody;
  }
  /// The scope of signal flags.
  FutexScope scope() const {
    return scopeOf(group_.spansProcesses() ? FutexScope::Processes : FutexScope::Process);
  }

  /// A counter that the records of one event on one queue advance. One for each queue, because
  /// records on two queues may be reached in any order.
  struct alignas(64) EventFlag {
    uint32_t value = 0;
  };
  struct EventOnQueue {
    uint32_t queue;
    uint32_t records;
    EventFlag *flag;
  };
  struct Event {
    std::vector<EventOnQueue> queues;
    QueuedCommand::Flag last; ///< written by the last record
  };
  EventOnQueue &find(Event &event, uint32_t queue);

  void sleepUntilDrained(std::chrono::milliseconds slice);

  /// A command of a graph; of an event or of messages, which stand for other things in each run.
  struct Recorded {
    QueuedCommand command;
    std::optional<uint32_t> event = {};
    std::optional<IssuedMessages> messages = {}; ///< exchanges only
  };

  RankGroup &group_;
  const Options options_;
  bool isTracing_ = false;
  int64_t lastMark_ = 0, passed_ = 0;
  std::atomic<size_t> scratchHint_{0};
  HostMemory memory_;
  MessageLink link_;
  OperationMaker operations_;
  std::deque<EventFlag> eventFlags_; ///< addresses stay
  EventFlag neverRecorded_;
  std::vector<Event> events_;
  EventRanges ranges_;                               ///< ranges within events_
  std::map<uint32_t, std::vector<Recorded>> graphs_; ///< by number
  std::vector<Recorded> *recording_ = nullptr;       ///< one of them; null: commands run
  uint32_t nextGraph_ = 0;

  std::vector<std::unique_ptr<HardwareQueue>> queues_;
  // If hardware queues are not limited:
  std::vector<uint32_t> streamQueues_;         ///< by stream; for stream 0, as its device began
  std::map<uint32_t, uint32_t> callersQueues_; ///< by stream that callerStream() has returned
  uint32_t callersQueue_ = 0;                  ///< the queue of stream 0 now
  std::optional<uint32_t> handover_;           ///< the event by which stream 0 moves
  std::vector<std::unique_ptr<HardwareQueue>> ended_; ///< watchers may still look at them
  /// Every list that was ever published: watchers may still read an old one. Publishing by pointer
  /// keeps a lock, and the order it would bring, out of the watching.
  std::vector<std::unique_ptr<QueueList>> lists_;
  std::atomic<const QueueList *> published_;
};

} // namespace braid
