//===- runtime/execute/device.h - the two interfaces a backend implements ---------------------===//
//
// A Device is one rank's memory, streams and arithmetic; a Transport is how that rank meets the
// others. Everything that can block, allocate or load is called while preparing. The issue
// functions only append to a stream: they never block, never wait for a peer and never fail; what
// goes wrong later is returned by the next synchronize(), and stays.
//
// Streams are numbered; stream 0 is the caller's. Work on one stream happens in issue order;
// between streams, only events and flags order anything. An issue function may be called by one
// host thread at a time; different ranks' Devices are used by different threads.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"
#include "runtime/plan/plan.h"

#include <chrono>
#include <memory>

namespace braid {

/// Identifies an issued command in messages and traces. The Plan outlives its last run.
struct Tag {
  const Plan *plan = nullptr;
  uint32_t command = 0; ///< index into plan->commands
  uint32_t run = 0;     ///< the run's epoch
};

/// Operands of a GEMM, at addresses. Shapes as in PlanMatmul.
struct MatmulArgs {
  DType dtype;
  bool transposeB;
  int64_t m, n, k;
  const void *a, *b;
  const void *bias; ///< null: none
  void *c;
  bool overlaps; ///< as PlanMatmul's
  DType result;  ///< c's element type
};

/// Operands of a sum, at addresses. As in PlanSum.
struct SumArgs {
  DType dtype, partial;
  int64_t elements; ///< of dst, and of each part
  int64_t count;
  int64_t stride; ///< bytes
  const void *parts;
  const void *bias; ///< null: none
  int64_t biasElements;
  void *dst;
  DType result; ///< dst's element type
};

/// Operands of pointwise functions, at addresses. As in PlanPointwise.
struct PointwiseArgs {
  struct Operand {
    DType dtype;
    const void *data; ///< null: none
  };
  DType dtype; ///< of dst
  int64_t elements;
  void *dst;
  Operand first;
  uint32_t count; ///< of steps
  PointwiseStep<Operand> steps[kMostPointwiseSteps];
};

/// One of several signals, awaits and copies that a stream gets one right after the other.
struct BatchedCommand {
  CommandKind kind; ///< Signal, Await or Copy
  uint32_t command; ///< index into plan->commands
  void *flag;       ///< Signal, Await
  void *dst;        ///< Copy
  const void *src;
  int64_t bytes;
};

/// Who moves the bytes of copies, and who makes and awaits signals. Default is the device's choice.
enum class CopyBy : uint8_t {
  Default,
  Engine, ///< a copy engine, beside the arithmetic
  Kernel, ///< a kernel: starts faster, and takes processors from the arithmetic
};
enum class SignalBy : uint8_t {
  Default,
  Memory, ///< memory operations of the stream: need no processor
  Kernel, ///< a kernel: faster, if a processor is free
};
llvm::StringRef name(CopyBy by);
llvm::StringRef name(SignalBy by);
std::optional<CopyBy> copyByFromName(llvm::StringRef name);
std::optional<SignalBy> signalByFromName(llvm::StringRef name);

struct TransferMode {
  CopyBy copies = CopyBy::Default;
  SignalBy signals = SignalBy::Default;
  bool operator==(const TransferMode &) const = default;
};

/// Bytes between two signal flags in memory: one cache line each. The flag itself is the first four
/// bytes, a counter that starts at 0.
inline constexpr int64_t kFlagStride = 64;

enum class ArenaKind : uint8_t {
  Symmetric, ///< can be exported to peers
  Private,
  Flags, ///< signal flags, exported like Symmetric: where the host can end a wait for one
};

/// When a command ran on the device, on a clock that all ranks of a host share.
struct Span {
  Tag tag;
  uint32_t stream;
  int64_t beginNs, endNs;
};

/// A command at the head of a stream that cannot go on yet.
struct PendingWait {
  Tag tag;
  uint32_t stream;
};

class Device {
public:
  virtual ~Device() = default;

  /// What it is, for people: the machine's part and its driver. Empty: the host.
  virtual std::string description() const { return ""; }
  /// False if what it reads and writes, but for copies, must come from its own allocate().
  virtual bool sharesHostMemory() const { return true; }

  /// True if a flag counts: it holds the epoch of its last signal. False if it only holds a mark,
  /// which the await takes away: then every signal has to be awaited before the next one. Programs
  /// that the checker accepts do so.
  virtual bool countsRuns() const { return true; }

  /// As ClusterOptions::reproducible, where this device was asked for it.
  virtual bool isReproducible() const { return false; }

  // -- While preparing. May block, allocate and load. --

  /// `bytes` of memory, zeroed, aligned to 256 bytes, owned by the device until it is destroyed, or
  /// until it is released. Zero bytes give a valid address.
  virtual Result<void *> allocate(ArenaKind kind, int64_t bytes) = 0;
  /// Makes sure that streams 0 .. count-1 exist.
  virtual Status reserveStreams(uint32_t count) = 0;
  /// New events; their numbers are the returned one and those that follow.
  virtual Result<uint32_t> createEvents(uint32_t count) = 0;
  /// A handle that a peer's Transport::open turns into an address. `base` came from
  /// allocate(Symmetric or Flags). The same for the same base, also when it is allocated again.
  virtual Result<std::string> exportMemory(void *base) = 0;
  /// Before tune(): does what warm() would with what this rank knows of the shape from earlier
  /// jobs, if it knows something, at the same time as the other ranks. A guess: setAlgorithm()
  /// decides.
  virtual Status loadAlgorithm(const PlanMatmul &) { return Status::ok(); }
  /// Names what a choice of tune() holds for: devices with the same key may take over each other's.
  /// Empty, which it is on all ranks or on none: it has nothing to choose.
  virtual std::string tuningKey() const { return ""; }
  /// Finds out how to multiply operands of this shape best, by measuring, or from an earlier
  /// measurement. Takes about `atMost`, if it measures. Returns a line of text for setAlgorithm().
  virtual Result<std::string> tune(const PlanMatmul &shape, std::chrono::milliseconds atMost) {
    (void)shape;
    (void)atMost;
    return std::string();
  }
  /// Lets GEMMs of this shape be multiplied as `choice` says, which a device with the same key
  /// has returned from tune(). Before warm().
  virtual Status setAlgorithm(const PlanMatmul &shape, const std::string &choice) {
    (void)shape;
    (void)choice;
    return Status::ok();
  }
  /// Loads whatever a GEMM of this shape needs, so that issuing it does not.
  virtual Status warm(const PlanMatmul &shape) = 0;
  /// What tune() has chosen, from where, and how long it took, for people. Empty: nothing.
  virtual std::string choices() const { return ""; }

  /// Tells of a Plan before its first run; what it issues may then be named. `plan` outlives the
  /// device, or the recycle() after its releasePlan().
  virtual Status registerPlan(const Plan &) { return Status::ok(); }
  /// A stream for callers who have none of their own, to be given to setCallerStream(): the same
  /// for the same number, and for 0 the one that stream 0 is at first. The device's until it is
  /// destroyed.
  virtual Result<void *> callerStream(uint32_t number) {
    (void)number;
    return nullptr;
  }
  /// BadInput unless `data` is where this device's tensors may lie.
  virtual Status checkAddress(const void *data) {
    (void)data;
    return Status::ok();
  }

  // -- Giving back. What is not given back stays until the device is destroyed. --

  /// Nothing that is issued from now on, here or by peers, uses this; what was issued before may
  /// still do so. `base` came from allocate(). Never blocks.
  virtual void release(void *base) { (void)base; }
  /// The same for all events that one createEvents() returned, of which `first` is the first.
  virtual void releaseEvents(uint32_t first) { (void)first; }
  /// The same for a graph of endCapture().
  virtual void releaseGraph(uint32_t graph) { (void)graph; }
  /// The same for a Plan of registerPlan(), as often as it was registered.
  virtual void releasePlan(const Plan &) {}
  /// What was released so far is used by nobody any more, on any rank: allocate() may hand it out
  /// again, or it may be freed. Everything issued here is done.
  virtual void recycle() {}

  /// How many tiles of a GEMM it computes at once. 0: its GEMMs have no waves of tiles.
  virtual int64_t tilesAtOnce() const { return 0; }
  /// False for a transfer mode that this device has not got.
  virtual bool offers(TransferMode transferMode) const { return transferMode == TransferMode(); }
  /// What is allocated and issued from now on goes by this mode, which the device offers.
  virtual void use(TransferMode) {}

  // -- Graphs. Unsupported, unless the backend has them. --

  /// Until endCapture(), what is issued is recorded instead of run.
  virtual Status beginCapture() { return Status(StatusCode::Unsupported, "no graphs here"); }
  /// The number of the recorded graph, ready to be launched.
  virtual Result<uint32_t> endCapture() {
    return Status(StatusCode::Unsupported, "no graphs here");
  }
  /// Issues a recorded graph to stream 0. `tag.command` is kNone.
  virtual void launch(uint32_t graph, Tag tag) {
    (void)graph;
    (void)tag;
  }

  // -- Issuing. Never blocks, allocates device memory or fails. --

  /// Stream 0 is `stream` from now on, in the terms of the device (a cudaStream_t), and goes on
  /// when all is done that stream 0 was given before. `tag` has no command. Unsupported, and
  /// nothing is issued, if that stream is being captured.
  virtual Status setCallerStream(void *stream, Tag tag) {
    (void)stream;
    (void)tag;
    return Status::ok();
  }

  /// Copies `bytes`; either side may be an address that Transport::open returned.
  virtual void copy(uint32_t stream, Tag tag, void *dst, const void *src, int64_t bytes) = 0;
  virtual void matmul(uint32_t stream, Tag tag, const MatmulArgs &args) = 0;
  /// dst[i] += src[i] for `bytes / sizeOf(dtype)` elements, each sum rounded once.
  virtual void add(uint32_t stream, Tag tag, DType dtype, void *dst, const void *src,
                   int64_t bytes) = 0;
  /// dst = the sum of the parts in their order, in f32 (f64 for f64), plus bias, rounded once.
  virtual void sum(uint32_t stream, Tag tag, const SumArgs &args) = 0;
  /// dst = functions of each element, in f32 (f64 for f64), rounded once.
  virtual void pointwise(uint32_t stream, Tag tag, const PointwiseArgs &args) = 0;
  /// Writes `epoch` into a flag, of a peer or our own, after everything before it on the stream is
  /// done and visible to whoever sees the flag's new value.
  virtual void signal(uint32_t stream, Tag tag, void *flag, uint32_t epoch) = 0;
  /// The stream goes on when a flag of our own has reached `epoch`, in cyclic order:
  /// int32(flag - epoch) >= 0. What was done before the matching signal is visible then.
  virtual void await(uint32_t stream, Tag tag, const void *flag, uint32_t epoch) = 0;
  /// The steps, one after the other: the same as copy(), signal() and await() for each, which is
  /// what happens here. A device may need fewer launches for it. If `areDisjoint`, no copy reads or
  /// writes what another one writes. `tag.command` is that of the first step.
  virtual void issueBatch(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps,
                          bool areDisjoint);
  /// `event` stands for everything issued to `stream` so far. Equivalent to: cudaEventRecord
  virtual void record(uint32_t stream, Tag tag, uint32_t event) = 0;
  /// `stream` waits for what `event` stands for at this moment of issuing; an event never recorded
  /// holds nothing up. Equivalent to: cudaStreamWaitEvent
  virtual void waitEvent(uint32_t stream, Tag tag, uint32_t event) = 0;

  /// A stopwatch on stream 0: it starts, and stops, when the stream gets here. Not in a capture.
  virtual void startClock() {}
  virtual void stopClock() {}

  // -- From the host. --

  /// Microseconds on the stopwatch, once synchronize() was Ok. Empty: the device has none.
  virtual std::optional<double> clockedUs() { return std::nullopt; }
  /// Blocks until everything issued is done. TimedOut if no rank made progress for the backend's
  /// timeout, or if none ever can; the message names what waits. After a failure, contents of
  /// outputs are undefined and every later call returns the first cause.
  virtual Status synchronize() = 0;
  /// What holds each stream up right now; empty if everything moves.
  virtual std::vector<PendingWait> pending() = 0;
  /// Starts to keep a Span for every command that runs.
  virtual void startTrace() = 0;
  /// The spans so far, in no order. Call after synchronize().
  virtual std::vector<Span> takeTrace() = 0;
};

class Transport {
public:
  virtual ~Transport() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;

  /// Gives `mine` to every rank and returns all ranks' texts in rank order. Collective: every rank
  /// calls it the same number of times. Blocks; TimedOut if some rank does not come, naming it.
  /// Equivalent to: MPI_Allgatherv
  virtual Result<std::vector<std::string>> allGather(std::string mine) = 0;
  /// The address at which this rank's device reaches the memory that `peer` exported. Valid until
  /// the transport is destroyed.
  virtual Result<void *> open(int64_t peer, const std::string &handle) = 0;
  /// Ends a step of the job, for all ranks or for none: Ok on every rank, whatever happens later,
  /// if every rank came here before any failed; otherwise the first cause, on every rank.
  /// Collective; blocks. What a run computed counts only when this has said Ok.
  virtual Status commit() = 0;
  /// Says that this rank's host thread makes progress in its own code, so that it is not taken for
  /// stuck. Cheap.
  virtual void tick() {}
  /// Makes every blocked call of every rank return `cause`, unless one failed before. Any thread.
  virtual void abort(const Status &cause) = 0;
};

} // namespace braid
