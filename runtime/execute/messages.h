//===- runtime/execute/messages.h - data that ranks send each other ---------------------------===//
#pragma once

#include "api/status.h"
#include "runtime/execute/control_plane.h"
#include "runtime/execute/tag.h"
#include "runtime/execute/transfer_mode.h"

namespace braid {

/// Ranks that issue collectives together, in the order in which the collective numbers them.
using Team = std::vector<int64_t>;

/// One side of a message, at an address.
struct MessageArgs {
  Direction direction;
  int64_t peer;
  DType dtype;
  void *data; ///< only read if it is sent
  int64_t bytes;
};

/// Operands of a collective, at addresses. As in PlanCollective.
struct CollectiveArgs {
  CollectiveKind kind;
  std::optional<ReductionOperator> reduction;
  DType dtype;
  llvm::ArrayRef<int64_t> team; ///< as given to openTeams(); this rank is a member
  int64_t root;                 ///< a rank; -1: the kind has none
  void *dst;                    ///< a reduce writes it on the root only
  const void *src;              ///< a broadcast reads it on the root only
  int64_t dstBytes, srcBytes;
};

/// Groups of sends and receives, and collectives. Those of all communicators are issued in one
/// order on all ranks, and ordered one after the other by streams and events. Issue functions are
/// as Device's; what goes wrong in them ends the job.
class Messages {
public:
  virtual ~Messages() = default;

  // -- While preparing. --

  /// Makes what these teams, and groups among all ranks, need and have not got yet. Collective:
  /// all ranks call it with the same teams in the same order, members or not. Blocks. Plans that
  /// are registered with this `mode` send by it, from memory that there is by then.
  virtual Status openTeams(llvm::ArrayRef<Team> teams, ControlPlane &control,
                           TransferMode mode = {}) = 0;

  /// openTeams() leaves something to the first operation of each kind and size, which must not be
  /// one of a run.
  virtual bool connectsLater() const { return true; }

  /// Called once the first operations have been issued. Blocks until they are over if this mode is
  /// known to hang at times. Unsupported if they hang; the job has then ended.
  virtual Status tryConnections(TransferMode) { return Status::ok(); }

  /// The library and options behind messages of this mode: "NCCL 2.28.9, 8 CTAs". May be empty.
  virtual std::string describe(TransferMode) const { return ""; }

  // -- Issuing. --

  /// The n-th send to a peer, over all groups, meets the peer's n-th receive from here. The stream
  /// goes on when all messages have been sent and have arrived. `messages` is not empty.
  /// Equivalent to: ncclGroupStart, ncclSend, ncclRecv, ncclGroupEnd
  virtual void group(uint32_t stream, Tag tag, llvm::ArrayRef<MessageArgs> messages) = 0;
  /// The stream goes on when this rank's part is done. Equivalent to: ncclAllGather and its kin.
  virtual void collective(uint32_t stream, Tag tag, const CollectiveArgs &args) = 0;
};

} // namespace braid
