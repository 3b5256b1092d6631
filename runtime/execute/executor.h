//===- runtime/execute/executor.h - binds a Plan to a device, and issues it -------------------===//
//
// prepare() does everything that allocates, exchanges, loads or can block; run() only issues the
// Plan's commands in order, at a few nanoseconds each.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/control_plane.h"
#include "runtime/execute/device.h"
#include "runtime/tune/tune_gemms.h"

namespace braid {

/// A Plan bound to addresses on one rank. Made by prepare(). Not thread-safe.
class Prepared {
public:
  /// Gives its memory, its events and its graph back to the device, which may use them again when
  /// all ranks have come to a later prepare(). Runs may still be in flight; every rank has to have
  /// issued as many as the others.
  ~Prepared();
  Prepared(const Prepared &) = delete;
  /// Issues one run to stream 0 and the streams of the Plan, and returns. Runs follow one another
  /// on stream 0; any number may be in flight. If stream 0 is the caller's and being captured, the
  /// run becomes a part of the caller's graph, and does not count. `inputs` and `outputs` are
  /// device addresses, one for each parameter and result of the program in order; they may differ
  /// from run to run and must stay valid until the run is done.
  void run(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs);
  /// Records one run at these addresses as a graph, beside those before; nothing runs. Blocks. Its
  /// number. Unsupported where the backend has no graphs.
  Result<uint32_t> record(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs);
  /// Is there something to record with, and is stream 0 not being captured by the caller?
  bool canRecord() const { return graphs_ && !graphs_->isInCallersCapture(); }
  /// Issues a recorded run, to the addresses of that time: one launch. May be mixed with run().
  void replay(uint32_t recording);
  /// A hash of the allocations that hold these tensors; see Graphs::allocationOf(). Nothing if one
  /// is unknown, or a tensor lies in several: no graph with it may be launched again. canRecord().
  std::optional<size_t> allocationsOf(llvm::ArrayRef<const void *> inputs,
                                      llvm::ArrayRef<void *> outputs) const;
  /// Gives a recording back. Replays of it may still be in flight.
  void forget(uint32_t recording);
  /// record() in place of what the last capture() has recorded.
  Status capture(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs);
  /// Issues the run of the last capture().
  void replay();
  const Plan &plan() const { return *plan_; }
  /// The device address of a buffer of the Plan that is not the caller's; valid as long as this.
  void *address(uint32_t buffer) const { return bases_[buffer]; }
  /// The number of issued runs, replays included.
  uint32_t epoch() const { return epoch_; }

private:
  friend class Binder;
  Prepared(const Plan &plan, Device &device, TransferMode transferMode)
      : plan_(&plan), device_(&device), peers_(device.peerMemory()), messages_(device.messages()),
        compute_(&device.compute()), graphs_(device.graphs()), transferMode_(transferMode) {}

  /// The other side of an endpoint, at the peer.
  struct PeerSide {
    void *flag; ///< the one that the peer awaits
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

  /// Commands that are issued together: signals, awaits and copies that follow one another on one
  /// stream, and the sum right behind them.
  struct Batch {
    uint32_t count = 1;
    bool areDisjoint = false; ///< see PeerMemory::issueBatch
  };
  void issueBatch(uint32_t first, const Batch &batch);

  const Plan *plan_;
  Device *device_;
  PeerMemory *peers_;  ///< null if the Plan sends messages and the device has none
  Messages *messages_; ///< null: the device has none
  Compute *compute_;
  Graphs *graphs_; ///< null: the device has none
  TransferMode transferMode_;
  bool isRegistered_ = false; ///< with the device
  uint32_t epoch_ = 0;
  std::vector<uint32_t> recordings_; ///< graphs of the device
  std::optional<uint32_t> graph_;    ///< the graph of the last capture()
  std::vector<void *> arenas_;       ///< device memory of each arena
  std::optional<uint32_t> firstEvent_;
  char *flags_ = nullptr;
  std::vector<void *> bases_;         ///< one for each buffer of the Plan
  std::vector<PeerSide> peerSides_;   ///< one for each endpoint
  std::vector<Batch> batches_;        ///< one for each command; that of its first command counts
  std::vector<BatchedCommand> steps_; ///< the batch being issued; capacity for the longest
  std::vector<SumArgs> stepSums_;     ///< its sums; likewise
  std::vector<MessageArgs> group_;    ///< the group being issued; likewise
};

/// Prepares `plan` on `device`. Collective: every rank of the mesh calls it with its own Plan of
/// the same program. Fingerprints are compared first, then every send is matched with its
/// receive; a difference is BadInput and says which ranks differ, and where. `plan` and `device`
/// outlive the result. Unsupported if the device does not offer `transferMode`, or cannot send what
/// goes to another host. Only memory of ranks of this host is opened. Waits for all that was issued
/// to the device before. All ranks say the same about `unknown` GEMMs.
Result<std::unique_ptr<Prepared>> prepare(const Plan &plan, Device &device, ControlPlane &control,
                                          TransferMode transferMode = {},
                                          UnknownGemms unknown = UnknownGemms::Measure);

/// Frees the memory of programs that have gone and, as far as possible, returns it to the machine;
/// prepare() keeps some of it for the next program. Collective, and waits, as prepare() does.
Status giveBack(Device &device, ControlPlane &control);

} // namespace braid
