//===- runtime/execute/device.h - one rank's memory and streams -------------------------------===//
//
// A Device has memory and streams, and what else its backend can do as capabilities: arithmetic
// (compute.h), memory that peers reach (peer_memory.h), messages (messages.h), graphs, a trace, a
// stopwatch. How the rank meets others is its ControlPlane's matter.
//
// Everything that can allocate or load is called while preparing. The issue functions only append
// to a stream: they never allocate device memory and never fail; what goes wrong is known to
// ControlPlane::failure() at once, is returned by the next synchronize(), and stays. They block
// only while a stream is full of what waits for peers (kRunsAhead).
//
// Streams are numbered; stream 0 is the caller's. Work on one stream happens in issue order;
// between streams, only events and flags order anything. An issue function may be called by one
// host thread at a time; different ranks' Devices are used by different threads.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/compute.h"
#include "runtime/execute/messages.h"
#include "runtime/execute/peer_memory.h"

#include <memory>
#include <optional>

namespace braid {

/// Runs, eager or of graphs, that a rank can issue before its peers have issued any. With more, it
/// may block until they have; so nobody whose turn that is waits for it on the host. What
/// GPUs take is in backends/cuda/README.md.
inline constexpr int64_t kRunsAhead = 8;

/// When a command ran on the device, on a clock that all ranks of a host share.
struct Span {
  Tag tag;
  uint32_t stream;
  int64_t beginNs, endNs;
};

/// Runs that are recorded once and launched as one.
class Graphs {
public:
  virtual ~Graphs() = default;
  /// Until endCapture(), what is issued is recorded instead of run.
  virtual Status beginCapture() = 0;
  /// The number of the recorded graph, ready to be launched.
  virtual Result<uint32_t> endCapture() = 0;
  /// Issues a recorded graph to stream 0. `tag.command` is kNone.
  virtual void launch(uint32_t graph, Tag tag) = 0;
  /// As Device::release, of a graph.
  virtual void releaseGraph(uint32_t graph) = 0;
  /// Identifies the allocation that holds `address`. No two allocations of a process have the same
  /// number, even where the second one gets the address of the first after that was freed. 0: not
  /// known. A recorded graph may be launched only while its tensors lie in the same allocations:
  /// its copies refer to them, not only to their addresses.
  virtual uint64_t allocationOf(const void *address) {
    (void)address;
    return 0;
  }

  /// Stream 0 is the caller's, and is being captured: what is issued becomes a part of the caller's
  /// graph, up to the next endRun().
  virtual bool isInCallersCapture() const { return false; }
  /// Ends that state where no run follows: the call that began it is refused.
  virtual void leaveCallersCapture() {}
  /// Graphs of the caller's that hold runs, as far as they have not been destroyed. While there are
  /// some, blocks for a few milliseconds: one that is destroyed goes a little later.
  virtual int64_t callersGraphs() { return 0; }
  /// Whether one of them holds runs of this Plan. Does not block.
  virtual bool isInCallersGraph(const Plan &) { return false; }
  /// Everything that is issued or launched between these two calls is one run of tag.plan, which is
  /// registered. Runs of a Plan that is in a caller's graph must not overlap; if they do,
  /// synchronize() returns BadInput.
  virtual void beginRun(Tag) {}
  virtual void endRun(Tag) {}
};

/// Keeps a Span for every command that runs.
class Tracer {
public:
  virtual ~Tracer() = default;
  /// Blocks until stream 0 is done with what it has.
  virtual void startTrace() = 0;
  /// The spans so far, in no order. Call after synchronize().
  virtual std::vector<Span> takeTrace() = 0;
};

/// Measures stream 0: starts, and stops, when the stream reaches the call. Not in a capture.
class Stopwatch {
public:
  virtual ~Stopwatch() = default;
  virtual void startClock() = 0;
  virtual void stopClock() = 0;
  /// Microseconds between them, once synchronize() was Ok.
  virtual double clockedUs() = 0;
};

class Device {
public:
  virtual ~Device() = default;

  /// A description for people: the device's product name and driver. Empty for the host.
  virtual std::string description() const { return ""; }
  /// A unique name, as the vendor's tools print it: "GPU-8f2a...". Empty for the host.
  virtual std::string identity() const { return ""; }
  /// Bytes that allocate() may still give; nothing: nobody says.
  virtual std::optional<int64_t> freeBytes() { return std::nullopt; }
  /// False if what it reads and writes, but for copies, must come from its own allocate().
  virtual bool sharesHostMemory() const { return true; }

  // -- Capabilities. They live as long as the device; null: it has not got this one. --

  virtual Compute &compute() = 0;
  virtual PeerMemory *peerMemory() { return nullptr; }
  virtual Messages *messages() { return nullptr; }
  virtual Graphs *graphs() { return nullptr; }
  virtual Tracer *tracer() { return nullptr; }
  virtual Stopwatch *stopwatch() { return nullptr; }

  // -- While preparing. May block, allocate and load. --

  /// `bytes` of memory, zeroed, aligned to 256 bytes, owned by the device until it is destroyed, or
  /// until it is released. Zero bytes give a valid address.
  virtual Result<void *> allocate(ArenaKind kind, int64_t bytes) = 0;
  /// Makes sure that streams 0 .. count-1 exist.
  virtual Status reserveStreams(uint32_t count) = 0;
  /// New events; their numbers are the returned one and those that follow.
  virtual Result<uint32_t> createEvents(uint32_t count) = 0;
  /// Tells of a Plan before its first run, and of the mode of its transfers; what it issues may
  /// then be named. `plan` outlives the device, or the recycle() after its releasePlan().
  virtual Status registerPlan(const Plan &, TransferMode) { return Status::ok(); }
  /// Bytes that the device has allocated for a registered Plan, beside what allocate() was asked
  /// for.
  virtual int64_t planBytes(const Plan &) { return 0; }
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
  /// The same for a Plan of registerPlan(), as often as it was registered.
  virtual void releasePlan(const Plan &) {}
  /// States that no rank uses released memory any more: allocate() may return it again, or it may
  /// be freed. Everything that was issued here is done.
  virtual void recycle() {}
  /// Bytes of what allocate() and the like have taken and not freed, whether a program uses it or
  /// not. Does not block.
  virtual int64_t heldBytes() { return 0; }

  // -- Issuing. --

  /// Stream 0 is `stream` from now on, in the terms of the device (a cudaStream_t), and goes on
  /// when all is done that stream 0 was given before: eagerly, or in the same capture if that
  /// stream is being captured. `tag` has no command.
  virtual Status setCallerStream(void *stream, Tag tag) {
    (void)stream;
    (void)tag;
    return Status::ok();
  }
  /// Copies `bytes` between the host's memory and the device's, or within one of them.
  virtual void copy(uint32_t stream, Tag tag, void *dst, const void *src, int64_t bytes) = 0;
  /// `event` stands for everything issued to `stream` so far. An event is recorded on one stream
  /// only, until its number is given out again. Equivalent to: cudaEventRecord
  virtual void record(uint32_t stream, Tag tag, uint32_t event) = 0;
  /// `stream` waits for what `event` stands for at this moment of issuing; an event never recorded
  /// holds nothing up. Equivalent to: cudaStreamWaitEvent
  virtual void waitEvent(uint32_t stream, Tag tag, uint32_t event) = 0;

  // -- From the host. --

  /// Puts a mark behind what stream 0 was given, with a larger number than those before. False if
  /// stream 0 is being captured, or the device has no marks. Does not block.
  virtual bool mark(int64_t number) {
    (void)number;
    return false;
  }
  /// The largest number that the stream has passed; 0: none. Does not block.
  virtual int64_t passedMarks() { return 0; }
  /// Blocks until everything issued is done. TimedOut if no rank made progress for the backend's
  /// timeout, or if none ever can; the message names what waits. After a failure, contents of
  /// outputs are undefined and every later call returns the first cause.
  virtual Status synchronize() = 0;
};

} // namespace braid
