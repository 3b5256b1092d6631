//===- runtime/execute/device.h - one rank's memory and streams -------------------------------===//
//
// A Device provides memory, streams and arithmetic (compute.h). Its optional capabilities are
// memory that peers can access (peer_memory.h), messages (messages.h), graphs, tracing, and a
// stopwatch. ControlPlane connects the rank to other ranks.
//
// Functions that allocate memory or load code are called during preparation. Issue functions only
// append to a stream: they never allocate device memory and never fail. Errors are sticky:
// ControlPlane::failure() reports an error immediately, and the next synchronize() returns it.
// Issue functions block only while a stream is full of work that waits for peers (kRunsAhead).
//
// Streams are numbered; stream 0 is the caller's. Commands on one stream execute in issue order;
// only events and flags order commands on different streams. Only one host thread at a time may
// call a Device's issue functions. Each rank's Device may be used by a different thread.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/compute.h"
#include "runtime/execute/messages.h"
#include "runtime/execute/peer_memory.h"

#include <memory>
#include <optional>

namespace braid {

/// Number of runs, eager or replayed, that a rank can issue before its peers have issued any.
/// Issuing more runs may block until the peers catch up, so a peer with runs left to issue must not
/// block its host thread on this rank. backends/cuda/README.md lists the limits for GPUs.
inline constexpr int64_t kRunsAhead = 8;

/// The time interval in which a command ran, on a clock shared by all ranks on a host.
struct Span {
  Tag tag;
  uint32_t stream;
  int64_t beginNs, endNs;
};

/// Graphs: runs that are recorded once and then launched with a single operation.
class Graphs {
public:
  virtual ~Graphs() = default;
  /// Records issued commands, instead of executing them, until endCapture() is called.
  virtual Status beginCapture() = 0;
  /// Ends the recording and returns the number of the graph, which is ready to launch.
  virtual Result<uint32_t> endCapture() = 0;
  /// Issues a recorded graph to stream 0. `tag.command` is kNone.
  virtual void launch(uint32_t graph, Tag tag) = 0;
  /// Releases a graph, under the same rules as Device::release().
  virtual void releaseGraph(uint32_t graph) = 0;
  /// Returns the number of the allocation that contains `address`, or 0 if unknown. Numbers are
  /// unique within the process, even if a new allocation reuses the address of a freed one. A
  /// recorded graph may be launched only while its tensors remain in the same allocations, because
  /// its copies refer to allocations as well as addresses.
  virtual uint64_t allocationOf([[maybe_unused]] const void *address) { return 0; }

  /// True if stream 0 is the caller's stream and is being captured: commands issued up to the next
  /// endRun() become part of the caller's graph.
  virtual bool isInCallersCapture() const { return false; }
  /// Leaves the caller's capture without issuing a run. Called if the run is rejected.
  virtual void leaveCallersCapture() {}
  /// Returns the number of the caller's graphs that contain runs and still exist. Blocks for a few
  /// milliseconds if there are any, because graphs are destroyed asynchronously.
  virtual int64_t callersGraphs() { return 0; }
  /// Returns true if a caller's graph contains runs of this Plan. Does not block.
  virtual bool isInCallersGraph(const Plan &) { return false; }
  /// Delimit one run of tag.plan, which must be registered: all commands issued or launched between
  /// the two calls belong to the run. Runs of a Plan in a caller's graph must not overlap; if they
  /// do, synchronize() returns BadInput.
  virtual void beginRun(Tag) {}
  virtual void endRun(Tag) {}
};

/// Records a Span for every command that runs.
class Tracer {
public:
  virtual ~Tracer() = default;
  /// Starts recording. Blocks until stream 0 has completed its work.
  virtual void startTrace() = 0;
  /// Returns the spans recorded so far, in no particular order. Call after synchronize().
  virtual std::vector<Span> takeTrace() = 0;
};

/// Measures time on stream 0: the clock starts and stops when the stream reaches the corresponding
/// commands. Must not be used during a capture.
class Stopwatch {
public:
  virtual ~Stopwatch() = default;
  virtual void startClock() = 0;
  virtual void stopClock() = 0;
  /// Returns the microseconds between start and stop. Call after synchronize() has returned Ok.
  virtual double clockedUs() = 0;
};

class Device {
public:
  virtual ~Device() = default;

  /// Returns a human-readable description: product name and driver. Empty for the host.
  virtual std::string description() const { return ""; }
  /// Returns a unique name in the format of the vendor's tools: "GPU-8f2a...". Empty for the host.
  virtual std::string identity() const { return ""; }
  /// Returns the number of bytes that allocate() can still provide, or an empty value if unknown.
  virtual std::optional<int64_t> freeBytes() { return std::nullopt; }
  /// False if only copies can access host memory that is not from allocate().
  virtual bool sharesHostMemory() const { return true; }

  // -- Capabilities, valid for the device's lifetime. Null if not supported. --

  virtual Compute &compute() = 0;
  virtual PeerMemory *peerMemory() { return nullptr; }
  virtual Messages *messages() { return nullptr; }
  virtual Graphs *graphs() { return nullptr; }
  virtual Tracer *tracer() { return nullptr; }
  virtual Stopwatch *stopwatch() { return nullptr; }

  // -- Preparation. May block, allocate memory and load code. --

  /// Allocates `bytes` of zeroed memory, aligned to 256 bytes. The device owns the memory until it
  /// is released, or until the device is destroyed. For zero bytes, returns a valid address.
  virtual Result<void *> allocate(ArenaKind kind, int64_t bytes) = 0;
  /// Ensures that streams 0 .. count-1 exist.
  virtual Status reserveStreams(uint32_t count) = 0;
  /// Creates `count` events with consecutive numbers and returns the first number.
  virtual Result<uint32_t> createEvents(uint32_t count) = 0;
  /// Registers a Plan and its transfer mode before the Plan's first run, so that diagnostics can
  /// name its commands. The Plan must outlive the device or, once released, the next recycle().
  virtual Status registerPlan(const Plan &, TransferMode) { return Status::ok(); }
  /// Returns the number of bytes that the device has allocated for a registered Plan, excluding
  /// memory from allocate().
  virtual int64_t planBytes(const Plan &) { return 0; }
  /// Returns a stream to pass to setCallerStream() if the caller has no stream. Equal numbers yield
  /// the same stream; number 0 is the initial stream 0. The device owns the stream.
  virtual Result<void *> callerStream([[maybe_unused]] uint32_t number) { return nullptr; }
  /// Fails with BadInput if `data` cannot be the address of a tensor on this device.
  virtual Status checkAddress([[maybe_unused]] const void *data) { return Status::ok(); }

  // -- Release. Unreleased resources remain valid for the device's lifetime. --

  /// Releases memory from allocate(). Commands issued later, on this rank or by peers, must not use
  /// the memory; earlier commands still may. Never blocks.
  virtual void release(void *base) { (void)base; }
  /// Releases, under the same rules, all events from the createEvents() call that returned `first`.
  virtual void releaseEvents(uint32_t first) { (void)first; }
  /// Releases a Plan under the same rules. Must be called once for each registerPlan() call.
  virtual void releasePlan(const Plan &) {}
  /// Declares that no rank uses released memory any more, so that allocate() may reuse the memory
  /// or the device may free it. Requires that all commands issued on this device are complete.
  virtual void recycle() {}
  /// Returns the number of bytes that the device has allocated, even if unused. Never blocks.
  virtual int64_t heldBytes() { return 0; }

  // -- Issuing. --

  /// Replaces stream 0 with `stream`, a native handle (cudaStream_t). Commands issued to it later
  /// are ordered after all earlier commands of stream 0: eagerly, or within the same capture if
  /// `stream` is being captured. The tag does not identify a command.
  virtual Status setCallerStream([[maybe_unused]] void *stream, Tag) { return Status::ok(); }
  /// Copies `bytes` bytes between host and device memory, or within one of them.
  virtual void copy(uint32_t stream, Tag tag, void *dst, const void *src, int64_t bytes) = 0;
  /// Captures all work issued to `stream` so far in `event`. An event may be recorded on only one
  /// stream until its number is reused. Equivalent to: cudaEventRecord
  virtual void record(uint32_t stream, Tag tag, uint32_t event) = 0;
  /// Makes `stream` wait for the most recently issued record of `event`. Ignores an event that was
  /// never recorded. Equivalent to: cudaStreamWaitEvent
  virtual void waitEvent(uint32_t stream, Tag tag, uint32_t event) = 0;

  // -- Progress and completion. --

  /// Appends a progress marker to stream 0; `number` must exceed the numbers of earlier markers.
  /// Returns false if stream 0 is being captured or if markers are not supported. Does not block.
  virtual bool mark([[maybe_unused]] int64_t number) { return false; }
  /// Returns the number of the last marker that stream 0 has reached, or 0. Does not block.
  virtual int64_t passedMarks() { return 0; }
  /// Blocks until all issued work is complete. Fails with TimedOut, naming the waiting commands, if
  /// no rank makes progress for the backend's timeout, or once no rank can make progress. After a
  /// failure, output contents are undefined, and every later call returns the root cause.
  virtual Status synchronize() = 0;
};

} // namespace braid
