//===- runtime/execute/messages.h - messages between ranks ------------------------------------===//
#pragma once

#include "api/status.h"
#include "runtime/execute/control_plane.h"
#include "runtime/execute/tag.h"

namespace braid {

/// Ranks that issue collectives together, in the order of their blocks.
using Team = std::vector<int64_t>;

/// One side of a message, with its data as an address.
struct MessageArgs {
  Direction direction;
  int64_t peer;
  DType dtype;
  void *data; ///< not written by a send
  int64_t bytes;
};

/// The operands of a collective, as addresses. See PlanCollective.
struct CollectiveArgs {
  CollectiveKind kind;
  std::optional<ReductionOperator> reduction;
  DType dtype;
  llvm::ArrayRef<int64_t> team; ///< as passed to openTeams(); contains this rank
  int64_t root;                 ///< a rank, or -1 if the kind has no root
  void *dst;                    ///< a reduce writes it only on the root
  const void *src;              ///< a broadcast reads it only on the root
  int64_t dstBytes, srcBytes;
};

/// Issues groups of sends and receives, and collectives. All ranks issue these operations in the
/// same order across all communicators, and streams and events serialize them. Issue functions
/// behave as described in device.h. Errors terminate the job.
class Messages {
public:
  virtual ~Messages() = default;

  // -- Preparation. --

  /// Creates any missing resources for these teams and for groups among all ranks. Collective: all
  /// ranks, even non-members, pass the same teams in the same order. Blocks.
  virtual Status openTeams(llvm::ArrayRef<Team> teams, ControlPlane &control) = 0;

  /// True if openTeams() defers connection setup to the first operation of each kind and size. The
  /// caller must then issue one operation of each kind and size before any run.
  virtual bool connectsLater() const { return true; }

  /// Returns the name and version of the library, such as "NCCL 2.28.9". May be empty.
  virtual std::string describe() const { return ""; }

  // -- Issuing. --

  /// Issues a group. The n-th send to a peer, counted over all groups, matches the peer's n-th
  /// receive from this rank. The stream continues when all messages have been sent and received.
  /// `messages` must not be empty. Equivalent to: ncclGroupStart, ncclSend, ncclRecv, ncclGroupEnd
  virtual void group(uint32_t stream, Tag tag, llvm::ArrayRef<MessageArgs> messages) = 0;
  /// The stream continues when this rank's part is complete. Equivalent to: ncclAllGather etc.
  virtual void collective(uint32_t stream, Tag tag, const CollectiveArgs &args) = 0;
};

} // namespace braid
