//===- api/pairs/host_path.h - blocks through memory of the host ------------------------------===//
//
// No program can say that a block goes through the host, so this issues it to the device: the
// source writes parts of it into memory of the host, and the destination reads them from there,
// while the source writes the next one.
//
//   source        await free[s], copy to part s, signal full[s] of the destination
//   destination   await full[s], copy from part s of the source, signal free[s] of the source
//
// Every rank has room for the parts that it sends, and the flags that it awaits.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/blocks.h"
#include "runtime/execute/backend.h"

#include <memory>

namespace braid {

class HostPath {
public:
  /// Collective; blocks. `firstCommand` as in Plan, of kCommands commands.
  static Result<std::unique_ptr<HostPath>> create(Cluster &cluster, int64_t rank,
                                                  uint32_t firstCommand);
  static constexpr uint32_t kCommands = 6;

  /// Who sends to whom in a run, and who of them is this rank.
  struct Turn {
    std::optional<int64_t> to = {}, from = {}; ///< ranks
    /// Whether what is sent, or received, comes first. Else both at once, each on its stream.
    enum class Order : uint8_t { SendFirst, ReceiveFirst, AtOnce } order = Order::AtOnce;
  };

  /// Issues `count` blocks each way; block i lies in slot i mod slots. All ranks of the job issue
  /// the same shape and count, those that take no part with an empty turn. Sending is issued to
  /// stream 0; receiving to stream 1 if it is at once, else to stream 0. Where a turn differs from
  /// the one before, everything issued is done.
  void issue(const Turn &turn, const BlockShape &shape, int64_t count, const char *mine,
             char *theirs);

  /// Names what is issued; commands kWrite of it write into the host's memory.
  const Plan &plan() const { return plans_[static_cast<size_t>(rank_)]; }

private:
  HostPath(Device &device, int64_t rank, int64_t ranks);
  Status open(ControlPlane &control);
  void send(uint32_t stream, int64_t to, const BlockShape &shape, int64_t first, int64_t count,
            const char *mine);
  void receive(uint32_t stream, int64_t from, const BlockShape &shape, int64_t first,
               int64_t count, char *theirs);
  void one(uint32_t stream, uint32_t command, uint32_t value, const BatchedCommand &step);

  Device &device_;
  const int64_t rank_;
  std::vector<Plan> plans_; ///< of all ranks: names what is issued
  std::vector<char *> areas_; ///< of each rank
  uint32_t epoch_ = 0;        ///< the last value that was written into any flag
};

} // namespace braid
