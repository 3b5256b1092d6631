//===- api/pairs/host_path.h - blocks through memory of the host ------------------------------===//
//
// No program can say that a block goes through the host, so this issues it to the device: the
// source writes parts of it into memory of the host, and the destination reads them from there,
// while the source writes the next one.
//
//   source        await free[s], copy to part s, signal full[s] of the destination
//   destination   await full[s], copy from part s of the source, signal free[s] of the source
//
// A rank has room and flags for each peer.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/blocks.h"
#include "api/pairs/moves.h"
#include "runtime/execute/backend.h"

#include <memory>

namespace braid {

class HostPath {
public:
  /// Collective; blocks. `plans` are those of namingPlans(), and outlive the cluster. Goes before
  /// the cluster does, and after what was issued is done.
  static Result<std::unique_ptr<HostPath>> create(Cluster &cluster, int64_t rank,
                                                  llvm::ArrayRef<Plan> plans);
  /// Of all ranks. `firstCommand` as in Plan.
  static std::vector<Plan> namingPlans(int64_t ranks, uint32_t firstCommand);

  /// Issues this rank's part of `count` transfers of each pair; all ranks issue the same. Rows of
  /// blocks and streams are as in pair_programs.h.
  void issue(const Moves &moves, const BlockShape &shape, int64_t count, char *mine, char *theirs);

  /// How many transfers can be issued to a stream that waits: a GPU takes about a thousand commands
  /// of one, and then holds up whoever issues more.
  int64_t mostAhead(const BlockShape &shape) const;

  /// Names what is issued. Endpoints are those of transfers to rank 0, 1, ..., then from rank 0, 1,
  /// ...; only a copy on the source has one that sends.
  const Plan &plan() const { return plans_[static_cast<size_t>(rank_)]; }
  uint32_t commands() const { return static_cast<uint32_t>(plan().commands.size()); }

private:
  /// Blocks to a peer, or from it. Part number n of them is written into flags as first + n.
  struct Blocks {
    uint32_t stream;
    int64_t peer;
    const BlockShape &shape;
    int64_t first;
    char *row; ///< slot 0
  };
  HostPath(Cluster &cluster, int64_t rank, llvm::ArrayRef<Plan> plans);
  Status open(ControlPlane &control);
  void issueTurns(const Moves &moves, const BlockShape &shape, int64_t count, char *mine,
                  char *theirs);
  void issueParts(llvm::ArrayRef<Blocks> received, llvm::ArrayRef<Blocks> sent, int64_t parts);
  void send(const Blocks &blocks, int64_t number);
  void finishSending(const Blocks &blocks, int64_t parts);
  void receive(const Blocks &blocks, int64_t number);
  void one(const Blocks &blocks, uint32_t kind, int64_t number, void *dst, const void *src,
           int64_t bytes);
  int64_t partsOf(int64_t bytes) const { return (bytes + partBytes_ - 1) / partBytes_; }
  /// What rank `owner` has for its transfers with `peer`.
  char *area(int64_t owner, int64_t peer) const;
  int64_t areaBytes() const;

  Device &device_;
  const int64_t rank_, ranks_;
  const int64_t partBytes_;
  const llvm::ArrayRef<Plan> plans_; ///< of all ranks
  std::vector<char *> bases_;        ///< of the areas of each rank
  int64_t epoch_ = 0;                ///< the last value that was written into any flag
};

} // namespace braid
