//===- backends/cuda/cuda_device.h - one GPU --------------------------------------------------===//
//
// One process drives one GPU: several in one process share queues inside the driver, where a wait
// for a peer can hold up the peer (backends/cuda/README.md).
//
// Flags that memory operations wait for lie in host memory that the GPUs of both ranks reach. A
// wait on such a flag can be ended by the host with a plain store, whatever the GPU's queues are
// stuck in; on device memory it cannot: with forty streams waiting, a write from one more never
// ran. And a signal through host memory is no slower (8.6 against 10.4 us one way). Kernels that
// wait can look at two places: where all signals are by kernels, flags lie in device memory, and a
// flag in host memory ends the waits.
//
// A flag is 0 or 1: a signal stores 1, an await waits for that and stores 0. So nothing in a
// captured graph depends on the number of the run, and eager runs and replays share their flags. It
// is safe because the signal of the next run never comes before the await of this one has passed;
// the checker proves that for every program.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/copy_and_signal.h"
#include "backends/cuda/cuda_memory.h"
#include "backends/cuda/driver.h"
#include "backends/cuda/event_clock.h"
#include "backends/cuda/gemm/gemms.h"
#include "backends/cuda/message_library.h"
#include "backends/cuda/run_guard.h"
#include "backends/cuda/stream_steps.h"
#include "backends/cuda/waiting_budget.h"
#include "runtime/execute/event_ranges.h"
#include "runtime/job/process_group.h"

#include <nvtx3/nvToolsExt.h>

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace braid {

class CudaDevice final : public Device,
                         public Compute,
                         public GemmTuning,
                         public PeerMemory,
                         public Messages,
                         public Graphs,
                         public Tracer,
                         public Stopwatch {
public:
  struct Options {
    int64_t rank = 0;
    int device = 0;                      ///< CUDA's number
    cudaStream_t callerStream = nullptr; ///< stream 0; null: one of our own
    bool isTuned = true;                 ///< measures which algorithms multiply best
    bool mayShare = false;               ///< other ranks may have the same GPU
    bool isReproducible = false;         ///< as ClusterOptions::reproducible
    /// Makes what sends messages for this rank; null: nothing does.
    std::function<std::unique_ptr<MessageLibrary>(const RankGroup &)> makeMessages = {};
  };
  static Result<std::unique_ptr<CudaDevice>> create(ProcessGroup &group, const Options &options);
  ~CudaDevice() override;

  /// The GPU's UUID, as 16 bytes.
  Result<std::string> uuid() const;
  std::string description() const override;
  std::string identity() const override;
  std::optional<int64_t> freeBytes() override;
  bool sharesHostMemory() const override { return false; }
  Compute &compute() override { return *this; }
  PeerMemory *peerMemory() override { return this; }
  Messages *messages() override { return messages_ ? this : nullptr; }
  Graphs *graphs() override { return this; }
  Tracer *tracer() override { return this; }
  Stopwatch *stopwatch() override { return this; }

  // -- Device. --

  Result<void *> allocate(ArenaKind kind, int64_t bytes) override {
    enter();
    return memory_.allocate(kind, bytes);
  }
  Status reserveStreams(uint32_t count) override;
  Result<uint32_t> createEvents(uint32_t count) override;
  Status registerPlan(const Plan &plan, TransferMode mode) override;
  int64_t planBytes(const Plan &plan) override;
  Result<void *> callerStream(uint32_t number) override;
  Status checkAddress(const void *data) override;
  void release(void *base) override { memory_.release(base); }
  void releaseEvents(uint32_t first) override { ranges_.release(first); }
  void releasePlan(const Plan &plan) override { releasedPlans_.push_back(&plan); }
  void recycle() override;
  int64_t heldBytes() override { return memory_.heldBytes(); }
  Status setCallerStream(void *stream, Tag tag) override;
  void copy(uint32_t stream, Tag tag, void *dst, const void *src, int64_t bytes) override;
  void record(uint32_t stream, Tag tag, uint32_t event) override;
  void waitEvent(uint32_t stream, Tag tag, uint32_t event) override;
  bool mark(int64_t number) override;
  int64_t passedMarks() override;
  Status synchronize() override;

  // -- Compute and GemmTuning. --

  bool isReproducible() const override { return options_.isReproducible; }
  GemmTuning *tuning() override { return this; }
  std::string choices() const override { return gemms_->choices(); }
  std::string tuningKey() const override { return gemms_->tuningKey(); }
  Result<std::string> tune(const PlanMatmul &shape, std::chrono::milliseconds atMost) override {
    return gemms().tune(shape, atMost);
  }
  Status loadAlgorithm(const PlanMatmul &shape) override { return gemms().loadAlgorithm(shape); }
  Status setAlgorithm(const PlanMatmul &shape, const std::string &choice) override {
    return gemms().setAlgorithm(shape, choice);
  }
  Status warm(const PlanMatmul &shape) override { return gemms().warm(shape); }
  void matmul(uint32_t stream, Tag tag, const MatmulArgs &args) override;
  void sum(uint32_t stream, Tag tag, const SumArgs &args) override;
  void pointwise(uint32_t stream, Tag tag, const PointwiseArgs &args) override;

  // -- PeerMemory (cuda_command_batch.cpp). --

  bool countsRuns() const override { return false; }
  bool offers(TransferMode) const override { return true; }
  ArenaKind arenaOfFlags(TransferMode mode) const override;
  Result<std::vector<void *>> allocateFrom(MemoryFrom from, llvm::ArrayRef<int64_t> bytes,
                                           ControlPlane &control) override {
    enter();
    return memory_.allocateFrom(from, bytes, control);
  }
  Result<std::string> exportMemory(void *base) override {
    enter();
    return memory_.exportMemory(base);
  }
  Result<void *> open(int64_t peer, const std::string &handle) override {
    enter();
    return memory_.open(peer, handle);
  }
  std::string unusedMemory(bool isAll) override { return memory_.unusedMemory(isAll); }
  void closeUnused(int64_t peer, const std::string &unused) override {
    enter();
    memory_.closeUnused(peer, unused);
  }
  void freeUnused() override {
    enter();
    memory_.freeUnused();
  }
  void issueBatch(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps, bool areDisjoint,
                  TransferMode mode) override;

  // -- Messages (cuda_messages.cpp). --

  Status openTeams(llvm::ArrayRef<Team> teams, ControlPlane &control, TransferMode mode) override;
  Status tryConnections(TransferMode mode) override;
  std::string describe(TransferMode mode) const override;
  void group(uint32_t stream, Tag tag, llvm::ArrayRef<MessageArgs> messages) override;
  void collective(uint32_t stream, Tag tag, const CollectiveArgs &args) override;

  // -- Graphs (cuda_capture.cpp), Tracer, Stopwatch. --

  Status beginCapture() override;
  Result<uint32_t> endCapture() override;
  void launch(uint32_t graph, Tag tag) override;
  void releaseGraph(uint32_t graph) override { releasedGraphs_.push_back(graph); }
  uint64_t allocationOf(const void *address) override;
  void leaveCallersCapture() override {
    if (isInCallersCapture())
      leaveCapture();
  }
  bool isInCallersCapture() const override { return capture_ && !isRecording_; }
  int64_t callersGraphs() override;
  bool isInCallersGraph(const Plan &plan) override;
  void beginRun(Tag tag) override;
  void endRun(Tag tag) override;
  void startTrace() override;
  std::vector<Span> takeTrace() override;
  void startClock() override { markClock(0); }
  void stopClock() override { markClock(1); }
  double clockedUs() override;

  // -- For the cluster. --

  /// Unmaps what belongs to peers.
  void closePeers();
  /// Gives back what sends messages; after an abort of the job, too. Graphs are gone afterwards.
  void closeMessages();
  /// Leaves everything as it is when this object goes: streams still use it.
  void abandon() { isAbandoned_ = true; }
  /// Ends every wait of this GPU's streams for a flag, now. To be repeated until the streams are
  /// empty, because an await made of memory operations takes the mark away that let it pass. Any
  /// thread; only stores to memory.
  void releaseWaits();
  /// Writes into the job memory how far the streams are, and returns what has failed in the
  /// background. Called by the watchdog; reads and writes memory only.
  Status publish();
  /// Blocks until the streams are empty after an abort, at most for `grace`. False: they are not.
  bool drain(std::chrono::milliseconds grace);

private:
  CudaDevice(ProcessGroup &group, const Options &options) : group_(group), options_(options) {}
  Status start();
  Status startCopyAndSignal(); // cuda_command_batch.cpp
  /// Makes this GPU the calling thread's.
  void enter() const;
  Gemms &gemms() const {
    enter();
    return *gemms_;
  }
  /// Turns an error of an issue function into the group's failure.
  void check(cudaError_t code, const char *call);
  void check(CUresult code, const char *call);
  bool isDone();
  void pause();
  void markClock(size_t mark);
  uint32_t number(uint32_t stream, Tag tag);
  uint32_t nextNumber(uint32_t stream, Tag tag);
  uint32_t *stepOf(uint32_t stream, Tag tag);
  // cuda_command_batch.cpp
  bool isByKernel(const BatchedCommand &step, Tag tag, TransferMode mode) const;
  void issueMemoryOperations(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps);
  void issueCopyAndSignal(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps,
                          bool areDisjoint, TransferMode mode);
  size_t addToCopyAndSignal(cuda::CopyAndSignal &batch, uint32_t stream, Tag tag,
                            llvm::ArrayRef<BatchedCommand> steps, bool areDisjoint,
                            TransferMode mode, const LaunchLimits &limits);
  void launchSum(uint32_t stream, const SumArgs &args);
  void copyByEngine(uint32_t stream, void *dst, const void *src, int64_t bytes);
  void pushRange(Tag tag);
  cudaEvent_t beginSpan(uint32_t stream, Tag tag);

  /// The resources that runs in graphs use while they run.
  struct ForGraphs {
    void *memory = nullptr; ///< all of it but the guard's report
    cuda::RunGuard guard;
    uint32_t *counters = nullptr;      ///< CopyAndSignal::kCounters for each stream
    std::vector<Workspace> workspaces; ///< one for each stream
    std::vector<void *> larger;        ///< memory of those that have grown
  };
  /// Graphs that are not destroyed; CUDA's thread that counts them down may outlive the device.
  using GraphCount = std::shared_ptr<std::atomic<int64_t>>;

  /// Commands of a Plan that follow one another.
  struct StepRange {
    uint32_t begin = 0, end = 0; ///< half open; empty: none
    bool contains(uint32_t command) const { return command >= begin && command < end; }
  };
  static StepRange lastStepsOf(const Plan &plan);

  /// The state of a registered Plan on this device.
  struct Timetable {
    explicit Timetable(const Plan &itsPlan) : plan(&itsPlan), steps(itsPlan) {}

    const Plan *plan;
    GraphSteps steps;
    /// This rank's count, which peers compare with theirs; null: nobody waits for a peer's memory,
    /// or there is no room for the count.
    std::atomic<uint64_t> *begunRuns = nullptr;
    uint32_t users = 1;                    ///< registrations
    Ctas ctas = {};                        ///< for its messages, as registered last
    std::vector<nvtxStringHandle_t> names; ///< the name of each origin, for profilers
    WaitingKernels waiting;
    LaunchLimits limits;                        ///< for runs that Braid orders
    std::optional<LaunchLimits> limitsInGraphs; ///< for callers' graphs, since the first capture
    bool waitsByMemory = false;                 ///< too many streams for kernels that wait
    StepRange lastSteps;                        ///< by which a run in a caller's graph ends
    std::vector<bool> isUsed;                   ///< each stream
    bool isInCallersGraph = false;              ///< so its runs are guarded from now on
    uint32_t ended = 0;                         ///< guarded runs, as the watchdog saw last
    std::atomic<bool> isLaunched{false}; ///< graphs of our own, since all was known to be over
    std::atomic<uint32_t> guarded{0};    ///< runs of which the host told the guard
    uint32_t ofCallers = 0;              ///< runs that graphs of the caller's have begun, likewise
    GraphCount callersGraphs = std::make_shared<std::atomic<int64_t>>(0); ///< with its runs
    ForGraphs ofGraphs;
  };
  void destroyGraphs();
  void destroyReleasedGraphs();
  // cuda_command_batch.cpp
  Status planCopyAndSignal(TransferMode mode, Timetable &timetable) const;
  WaitingBudget &waitingBudget() const {
    return WaitingBudget::ofDevice(options_.device, processors_);
  }
  LaunchLimits reserveWaiting(WaitingBudget::Lane lane, const Timetable &timetable);
  const LaunchLimits &limitsOf(Tag tag);
  Timetable *findTimetable(const Plan *plan) const;
  const Timetable &timetableOf(const Plan *plan) const;
  Timetable *note(Tag tag);
  void forgetPlan(const Plan *plan);
  bool hasPeersThatLag(const Timetable &timetable) const;
  StepsUnderWay findUnderWay() const;
  uint64_t nextStep(uint32_t stream, const StepsUnderWay &underWay) const;
  void publish(uint32_t stream, const StepsUnderWay &underWay, bool hasEnded);
  bool hasMoved(uint32_t stream, uint64_t &last);
  /// The await that a step is, of a Plan that was introduced; else of none.
  Tag awaitOf(uint64_t step) const;

  /// The streams of a capture; the first is the caller's, or recordingStream_.
  struct Capture {
    unsigned long long id = 0; ///< CUDA's
    std::vector<cudaStream_t> streams;
    std::vector<const std::atomic<int64_t> *> counts = {}; ///< that count its graph
    std::vector<cudaGraphNode_t> forkedFrom = {}; ///< nodes that the run's streams wait for
    bool isRunToBegin = false; ///< the first kernel that signals or waits counts the run
  };
  // cuda_capture.cpp
  static Result<cudaStream_t> createStream();
  static Status growStreams(std::vector<cudaStream_t> &streams, size_t count);
  static Result<bool> isOpen(const Capture &capture);
  Status reserveCapture();
  Status expectNoCapture();
  Status countGraph(const GraphCount &count);
  Result<Capture *> streamsFor(unsigned long long id);
  Status enterCapture(cudaStream_t origin, unsigned long long id);
  void leaveCapture();
  template <class Fn> void forSideStreams(const Timetable &timetable, Fn fn);
  void putBehind(cudaStream_t first, cudaStream_t next);
  void forkStreams(const Timetable &timetable);
  void joinStreams(const Timetable &timetable);
  void dropForkedFrom(cudaStream_t stream);
  /// True if kernels that signal or wait for peers count a run in a caller's graph.
  bool isCountedBySteps(const Timetable &timetable) const {
    return capture_ && !isRecording_ && timetable.lastSteps.end != 0;
  }
  void beginBehindReplays(bool mayBeOne);
  void putReplayBehindRuns();
  Status allocateForGraphs(Timetable &timetable);
  std::vector<int64_t> workspacesFor(const Plan &plan) const;
  Status growWorkspaces(Timetable &timetable);
  void releaseForGraphs(Timetable &timetable);
  static bool isRunning(const Timetable &timetable);
  static void countBegun(const Timetable &timetable, uint64_t runs);
  void countCallersRuns(Timetable &timetable);
  /// The number of guarded runs that have ended, modulo 2^32.
  static uint32_t endedRuns(const Timetable &timetable);
  Status checkOverlaps() const;
  /// The CUDA stream that takes commands of a Plan's stream now.
  cudaStream_t streamOf(uint32_t stream) const {
    return (capture_ ? capture_->streams : streams_)[stream];
  }

  void finishMessages(uint32_t stream, Tag tag, const Status &status);
  /// Nothing inside of a replay tells at once that it has begun, so a write behind the graph tells
  /// when it is over. For messages it would take 3 us inside.
  static bool isReportedBehind(const Timetable &timetable) {
    return !timetable.steps.showsItsBeginning();
  }
  void reportReplay(const Timetable &timetable, uint32_t run);
  void reportStep(uint32_t stream, Tag tag);
  void report(cudaStream_t stream, uint32_t *word, uint32_t value);
  void awaitReports(uint32_t stream);
  Result<std::unique_ptr<SymmetricMemory>> memoryOfMessages(MemoryFrom from, ControlPlane &control);

  ProcessGroup &group_;
  const Options options_;
  std::unique_ptr<MessageLibrary> messages_; ///< null: there is none
  bool keepsMessages_ = false;               ///< when this goes: a thread is inside the library
  const Driver *driver_ = nullptr;
  std::unique_ptr<Gemms> gemms_;
  CudaMemory memory_{group_, [this](MemoryFrom from, ControlPlane &control) {
                       return memoryOfMessages(from, control);
                     }};
  std::vector<cudaStream_t> streams_; ///< for eager runs
  std::vector<std::unique_ptr<Capture>> captures_;
  Capture *capture_ = nullptr; ///< that commands are recorded in; null: they run
  std::vector<cudaEvent_t> events_;
  cudaEvent_t clock_[2] = {};    ///< where the stopwatch starts and stops; null until it does
  std::vector<bool> isRecorded_; ///< in this capture, or ever
  EventRanges ranges_;           ///< the ranges of events_ that Plans have
  std::vector<cudaGraphExec_t> graphs_;
  std::vector<uint32_t> releasedGraphs_;      ///< to be destroyed; they may still run
  std::vector<uint32_t> freeGraphs_;          ///< numbers of graphs that are no more
  uint32_t *released_ = nullptr;              ///< not 0: kernels wait no longer
  uint32_t *copyAndSignalCounters_ = nullptr; ///< kCounters for each of kMaxPlanStreams
  bool hasBulkCopies_ = false;                ///< the GPU has a bulk copy unit
  bool hasPeerAtomics_ = false;               ///< it adds to flags in the memory of peers
  int processors_ = 0;
  std::vector<cudaStream_t> callersStreams_; ///< that callerStream() has given out; our own, but
                                             ///< for the first one if it was given to us
  bool ownsCallerStream_ = false;
  cudaEvent_t handover_ = nullptr;         ///< by which a stream waits for another
  cudaStream_t reports_ = nullptr;         ///< for reports that follow replays
  bool isReportedBeside_ = false;          ///< there, since the stream of replays waited for it
  cudaStream_t recordingStream_ = nullptr; ///< records Braid's own graphs
  bool isRecording_ = false;               ///< one of them
  bool wasReplay_ = false;                 ///< the last run was one
  bool hasCallersGraphs_ = false;          ///< some Plan has runs in some
  const GraphCount callersGraphs_ = std::make_shared<std::atomic<int64_t>>(0);
  bool isAbandoned_ = false;
  std::chrono::steady_clock::time_point waitingSince_; ///< in the last synchronize()
  struct Mark {
    int64_t number;
    cudaEvent_t event;
  };
  std::deque<Mark> marks_;             ///< not passed yet, as far as is known
  std::vector<cudaEvent_t> freeMarks_; ///< events of others
  int64_t passedMark_ = 0;
  std::vector<bool> isDirty_; ///< streams with work issued since they were last seen empty

  StepWord *words_ = nullptr;             ///< for eager runs, kMaxPlanStreams of them
  std::unique_ptr<IssuedSteps[]> issued_; ///< likewise
  std::vector<std::unique_ptr<Timetable>> timetables_;
  std::unordered_map<const Plan *, std::vector<Timetable *>> byPlan_; ///< the newest last
  size_t seenReplaced_ = 0;                   ///< Gemms::replaced(), when workspaces last grew
  std::vector<const Plan *> releasedPlans_;   ///< issued runs of them may not be over
  std::mutex timetablesMutex_;                ///< held where the watchdog reads one, and one goes
  std::atomic<Timetable *> current_{nullptr}; ///< the Plan that was issued last
  std::atomic<uint32_t> run_{0};              ///< the last issued run of that Plan
  uint32_t seen_[kQueueSlots] = {};           ///< steps, by the watchdog

  struct TracedCommand {
    Tag tag;
    uint32_t stream;
    cudaEvent_t begin, end;
  };
  class Issuing;
  nvtxDomainHandle_t domain_ = nullptr; ///< the ranges that profilers show
  bool isTracing_ = false;
  cudaEvent_t traceStarts_[2] = {}; ///< null until there is a trace
  EventMoment traceStart_;          ///< when one of them passed
  std::vector<TracedCommand> traced_;
};

} // namespace braid
