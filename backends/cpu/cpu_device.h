//===- backends/cpu/cpu_device.h - one rank's memory and queues -------------------------------===//
#pragma once

#include "backends/cpu/queue/hardware_queue.h"
#include "runtime/execute/event_ranges.h"
#include "runtime/job/host_memory.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>

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
    uint32_t queues;                 ///< see ClusterOptions::queues
    bool hasWorkers;                 ///< false if a scheduler runs the queues
    ProcessGroup *process = nullptr; ///< the rank's group, or null if all ranks are threads
    bool isReproducible = false;     ///< see ClusterOptions::reproducible
  };
  /// `observer` must outlive the device.
  CpuDevice(RankGroup &group, Options options, CommandObserver &observer);

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
  Status warm(const PlanMatmul &) override { return Status::ok(); }
  void matmul(uint32_t stream, Tag tag, const MatmulArgs &args) override;
  void sum(uint32_t stream, Tag tag, const SumArgs &args) override;
  void pointwise(uint32_t stream, Tag tag, const PointwiseArgs &args) override;

  Result<std::string> exportMemory(void *base) override { return memory_.exportMemory(base); }
  Result<void *> open(int64_t peer, const std::string &handle) override {
    return memory_.open(peer, handle);
  }
  void issueBatch(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps, bool areDisjoint,
                  TransferMode mode) override;

  /// Teams need no setup, because a collective is a set of messages between team members.
  Status openTeams(llvm::ArrayRef<Team>, ControlPlane &control) override {
    return link_.open(control);
  }
  bool connectsLater() const override { return false; }
  void group(uint32_t stream, Tag tag, llvm::ArrayRef<MessageArgs> messages) override;
  void collective(uint32_t stream, Tag tag, const CollectiveArgs &args) override;

  // Graphs save no time on CPUs, but let callers test code that records and launches graphs on
  // GPUs.
  Status beginCapture() override;
  Result<uint32_t> endCapture() override {
    recording_ = nullptr;
    return nextGraph_++;
  }
  void launch(uint32_t graph, Tag tag) override;
  void releaseGraph(uint32_t graph) override { graphs_.erase(graph); }
  /// Returns a constant, because recorded commands refer only to addresses.
  uint64_t allocationOf(const void *) override { return 1; }

  void startTrace() override { isTracing_ = true; }
  std::vector<Span> takeTrace() override;

  // -- For the cluster, from any thread. --

  /// Returns all queues. Preparing a program may add queues, but a returned list remains valid.
  const QueueList &queues() const { return *published_.load(std::memory_order_acquire); }
  /// Stops the workers. Requires an aborted group or isDrained(). Returns false if a worker has not
  /// ended within `patience`. The device must then never be destroyed, because the worker still
  /// uses it.
  bool stopWithin(std::chrono::milliseconds patience);
  /// Returns true if all issued commands have completed, or were dropped after an abort. Called
  /// only by the rank's host thread.
  bool isDrained() const;

private:
  using Kind = QueuedCommand::Kind;
  Status addQueue();
  HardwareQueue &queueOf(uint32_t stream) {
    const uint32_t queue = options_.queues == 0 ? stream : stream % options_.queues;
    assert(queue < queues_.size() && "streams are reserved before they are used");
    return *queues_[queue];
  }
  /// Calls `issue` immediately or, while a graph is being recorded, on each launch of the graph,
  /// because flag values, event values and message numbers differ between runs.
  template <class Issue> void issueOrRecord(Tag tag, Issue issue) {
    if (recording_)
      recording_->push_back({tag.command, std::move(issue)});
    else
      issue(tag);
  }
  void push(uint32_t stream, Tag tag, Kind kind, const QueuedCommand::Args &args) {
    queueOf(stream).issue({kind, isTracing_, stream, tag, args});
  }
  void issue(uint32_t stream, Tag tag, Kind kind, const QueuedCommand::Args &args) {
    issueOrRecord(tag, [=, this](Tag now) { push(stream, now, kind, args); });
  }
  void pushMessages(uint32_t stream, Tag tag, Work work);
  /// Returns `scope`, or Nobody if there are no workers that could sleep on a flag.
  FutexScope scopeOf(FutexScope scope) const {
    return options_.hasWorkers ? scope : FutexScope::Nobody;
  }
  /// Returns the scope of signal flags.
  FutexScope scope() const {
    return scopeOf(options_.process ? FutexScope::Processes : FutexScope::Process);
  }

  struct alignas(64) Event {
    uint32_t reached = 0; ///< flag that each record increments; not reset between Plans
    uint32_t issued = 0;  ///< number of records issued
  };

  void sleepUntilDrained(std::chrono::milliseconds slice);

  /// A command recorded in a graph.
  struct Recorded {
    uint32_t command;
    std::function<void(Tag)> issue;
  };

  RankGroup &group_;
  const Options options_;
  CommandObserver &observer_;
  bool isTracing_ = false;
  int64_t lastMark_ = 0, passed_ = 0;
  HostMemory memory_;
  MessageLink link_;
  std::deque<Event> events_;                         ///< a deque, to keep addresses stable
  EventRanges ranges_;                               ///< allocated ranges of events_
  std::map<uint32_t, std::vector<Recorded>> graphs_; ///< keyed by graph number
  /// The graph being recorded, or null.
  std::vector<Recorded> *recording_ = nullptr;
  uint32_t nextGraph_ = 0;

  /// Indexed by stream, modulo Options::queues unless that is 0.
  std::vector<std::unique_ptr<HardwareQueue>> queues_;
  /// The stream numbers returned by callerStream(). All of these streams share one queue, so each
  /// continues only after earlier commands on stream 0.
  std::set<uint32_t> callersStreams_;
  /// Keeps all published lists, because watchers may still be reading an old list. A lock would
  /// also order the host thread after the watchers; publishing a pointer does not.
  std::vector<std::unique_ptr<QueueList>> lists_;
  std::atomic<const QueueList *> published_;
};

} // namespace braid
