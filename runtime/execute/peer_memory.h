//===- runtime/execute/peer_memory.h - memory that peers can access ---------------------------===//
#pragma once

#include "api/status.h"
#include "runtime/execute/compute.h"
#include "runtime/execute/control_plane.h"
#include "runtime/execute/tag.h"
#include "runtime/execute/transfer_mode.h"

namespace braid {

/// Distance between signal flags in bytes: one cache line per flag. The first four bytes are the
/// flag itself, a counter that starts at 0.
inline constexpr int64_t kFlagStride = 64;

enum class ArenaKind : uint8_t {
  Symmetric, ///< can be exported to peers
  Private,
  Flags, ///< signal flags, exported like Symmetric; the host can write them to end a wait
};

/// A signal, await, copy or sum in a batch of consecutive commands on a stream.
struct BatchedCommand {
  CommandKind kind; ///< Signal, Await, Copy or Sum
  uint32_t command; ///< index into plan->commands
  void *flag;       ///< Signal, Await
  void *dst;        ///< Copy
  const void *src;
  int64_t bytes;
  const SumArgs *sum = nullptr; ///< Sum
  /// The writes that a signal publishes. Must be Peers for a copy to a peer. Peers is always valid.
  Published published = Published::Peers;
};

/// Returns true if the command copies the complete result of the sum to a peer.
bool gives(const Command &command, const PlanSum &sum);
/// Returns true if `command` is in the same batch as the preceding command. A batch consists of
/// consecutive signals, awaits and copies on a stream, the sum that directly follows, and awaits
/// after the sum. If copies then send the sum to peers, the batch continues after those copies.
bool continuesBatch(const Plan &plan, size_t command);
/// Returns the index of the first command after the batch that starts at `first`.
size_t endOfBatch(const Plan &plan, size_t first);

/// Access to peer memory, and the commands that use it. device.h describes issue functions.
class PeerMemory {
public:
  virtual ~PeerMemory() = default;

  /// True if a flag stores the epoch of its last signal. False for a binary flag, which an await
  /// resets. Each signal of a binary flag must be awaited before the next signal, which is the case
  /// in every program that the checker accepts.
  virtual bool countsRuns() const { return true; }
  /// Returns true if `mode` is supported.
  virtual bool offers(TransferMode mode) const { return mode == TransferMode(); }
  /// Returns the arena for flags that are signaled and awaited in this mode.
  virtual ArenaKind arenaOfFlags(TransferMode) const { return ArenaKind::Flags; }

  // -- Preparation. --

  /// Returns a handle for a peer's open(). `base` must have been allocated as Symmetric or Flags.
  /// The handle does not change until the memory is recycled.
  virtual Result<std::string> exportMemory(void *base) = 0;
  /// Like Device::allocate(Symmetric), but uses the given provider. Fails with Unsupported if the
  /// provider is not available.
  virtual Result<void *> allocateFrom(MemoryFrom from, int64_t bytes);
  /// Returns the address at which this rank's device accesses the memory that `peer` exported.
  /// Valid until the peer's memory is recycled or the device is destroyed.
  virtual Result<void *> open(int64_t peer, const std::string &handle) = 0;

  // -- Freeing memory that peers have mapped. Call in this order; see executor.cpp. --

  /// Lists the memory to free, which no program on this rank uses any more. Unless `isAll` is set,
  /// omits memory that was in use at the previous call, because the next program may need a similar
  /// amount. Empty if there is nothing to free.
  virtual std::string unusedMemory([[maybe_unused]] bool isAll) { return ""; }
  /// Unmaps the memory that unusedMemory() listed on `peer`, if this rank has mapped it.
  virtual void closeUnused([[maybe_unused]] int64_t peer,
                           [[maybe_unused]] const std::string &unused) {}
  /// Frees the memory listed by unusedMemory(). Requires that no peer maps the memory, and that
  /// Device::recycle() was called after unusedMemory().
  virtual void freeUnused() {}

  // -- Issuing. --

  /// Issues consecutive commands of a stream:
  /// * a copy behaves like Device::copy(); either side may be an address from open();
  /// * a signal writes `tag.run` to a flag of a peer or of this rank once all preceding work on the
  ///   stream is complete and visible to any reader of the new value;
  /// * an await blocks the stream until a flag of this rank has reached `tag.run`, in cyclic order:
  ///   int32(flag - run) >= 0. All work before the matching signal is then visible;
  /// * a sum behaves like Compute::sum().
  /// A device may merge commands into one launch. If `areDisjoint`, no copy accesses bytes that
  /// another copy writes. `tag.command` identifies the first command.
  virtual void issueBatch(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps,
                          bool areDisjoint, TransferMode mode) = 0;
};

} // namespace braid
