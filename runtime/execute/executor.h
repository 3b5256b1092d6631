//===- runtime/execute/executor.h - binds a Plan to a device, and issues it -------------------===//
//
// prepare() does everything that allocates memory, loads libraries, blocks, or exchanges data
// between ranks. run() only issues the Plan's commands in order, which takes a few nanoseconds per
// command.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/control_plane.h"
#include "runtime/execute/device.h"
#include "runtime/tune/tune_gemms.h"

namespace braid {

/// A Plan bound to addresses on one rank. Created by prepare(). Not thread-safe.
class Prepared {
public:
  /// Releases memory, events and graphs to the device, which may reuse them after a later prepare()
  /// on all ranks. Runs may still be in flight. All ranks must have issued the same number of runs.
  ~Prepared();
  Prepared(const Prepared &) = delete;
  /// Issues one run to stream 0 and the Plan's streams without waiting. Stream 0 serializes runs,
  /// and any number of runs may be in flight. If stream 0 is the caller's stream and is being
  /// captured, the run becomes part of the caller's graph, and epoch() is unchanged. `inputs` and
  /// `outputs` are device addresses, one for each parameter and result of the program in order. The
  /// addresses may differ between runs and must stay valid until the run is complete.
  void run(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs);
  /// Records one run with these addresses as a new graph, without executing it, and returns the
  /// graph's number. Blocks. Fails with Unsupported if the backend does not support graphs.
  Result<uint32_t> record(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs);
  /// True if the backend supports graphs and the caller is not capturing stream 0.
  bool canRecord() const { return graphs_ && !graphs_->isInCallersCapture(); }
  /// Issues a recorded run with a single launch, using the recorded addresses.
  void replay(uint32_t recording);
  /// Returns a hash of the allocations that contain these tensors; see Graphs::allocationOf().
  /// Empty if an allocation is unknown, or if a tensor spans several allocations; graphs that use
  /// these tensors must not be launched again in this case. Requires canRecord().
  std::optional<size_t> allocationsOf(llvm::ArrayRef<const void *> inputs,
                                      llvm::ArrayRef<void *> outputs) const;
  /// Releases a recording. Replays of it may still be in flight.
  void forget(uint32_t recording);
  /// Records a run, which replaces the recording of the previous capture().
  Status capture(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs);
  /// Issues the run recorded by the last capture().
  void replay();
  const Plan &plan() const { return *plan_; }
  /// Returns the address of a buffer not owned by the caller, valid for this object's lifetime.
  void *address(uint32_t buffer) const { return bases_[buffer]; }
  /// Returns the number of issued runs, including replays.
  uint32_t epoch() const { return epoch_; }

private:
  friend class Binder;
  Prepared(const Plan &plan, Device &device, TransferMode transferMode)
      : plan_(&plan), device_(&device), peers_(device.peerMemory()), messages_(device.messages()),
        compute_(&device.compute()), graphs_(device.graphs()), transferMode_(transferMode) {}

  /// The peer's side of an endpoint.
  struct PeerSide {
    void *flag; ///< the flag that the peer awaits
    void *data;
  };
  Tag begin();
  void end(Tag tag);
  void issueAll(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs);
  void issue(uint32_t index, const Command &command);
  void *at(const Range &range, uint32_t endpoint = kNone) const {
    return range.buffer == kPeerBuffer ? peerSides_[endpoint].data
                                       : static_cast<char *>(bases_[range.buffer]) + range.offset;
  }
  MatmulArgs matmulArgs(const Command &command) const;
  SumArgs sumArgs(const PlanSum &sum) const;
  PointwiseArgs pointwiseArgs(const PlanPointwise &pointwise) const;
  BatchedCommand stepOf(uint32_t command);
  void issueGroup(Tag tag, const Command &command);

  /// Commands that are issued together: consecutive signals, awaits and copies on one stream, and
  /// the sum that directly follows them.
  struct Batch {
    uint32_t count = 1;
    bool areDisjoint = false; ///< see PeerMemory::issueBatch
  };
  void issueBatch(uint32_t first, const Batch &batch);

  const Plan *plan_;
  Device *device_;
  PeerMemory *peers_;  ///< null if the Plan sends messages and the device lacks peer memory
  Messages *messages_; ///< null if the device has none
  Compute *compute_;
  Graphs *graphs_; ///< null if the device has none
  TransferMode transferMode_;
  bool isRegistered_ = false; ///< true once the device has registered the Plan
  uint32_t epoch_ = 0;
  std::vector<uint32_t> recordings_; ///< graph numbers on the device
  std::optional<uint32_t> graph_;    ///< the graph of the last capture()
  std::vector<void *> arenas_;       ///< device memory of each arena
  std::optional<uint32_t> firstEvent_;
  char *flags_ = nullptr;
  std::vector<void *> bases_;         ///< one for each buffer of the Plan
  std::vector<PeerSide> peerSides_;   ///< one for each endpoint
  std::vector<Batch> batches_;        ///< by command; valid for the first command of a batch
  std::vector<BatchedCommand> steps_; ///< the batch being issued; reserved up front
  std::vector<SumArgs> stepSums_;     ///< sums of the batch being issued; reserved up front
  std::vector<MessageArgs> group_;    ///< the group being issued; reserved up front
};

/// Prepares `plan` on `device`. Collective: every rank of the mesh must call it with its Plan of
/// the same program. Compares fingerprints, then matches every send with its receive; fails with
/// BadInput, naming the ranks and the source location, on a mismatch. `plan` and `device` must
/// outlive the result. Fails with Unsupported if the device does not support `transferMode`, or
/// cannot send to other hosts as the Plan requires. Opens only the memory of ranks on this host.
/// Waits for all work previously issued to the device. `unknown` must be the same on all ranks.
Result<std::unique_ptr<Prepared>> prepare(const Plan &plan, Device &device, ControlPlane &control,
                                          TransferMode transferMode = {},
                                          UnknownGemms unknown = UnknownGemms::Measure);

/// Frees the memory of destroyed programs and returns as much of it as possible to the system,
/// whereas prepare() caches some memory for the next program. Collective; blocks like prepare().
Status giveBack(Device &device, ControlPlane &control);

} // namespace braid
