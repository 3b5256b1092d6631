//===- runtime/execute/peer_memory.h - memory that peers can access ---------------------------===//
#pragma once

#include "api/status.h"
#include "runtime/execute/compute.h"
#include "runtime/execute/control_plane.h"
#include "runtime/execute/tag.h"
#include "runtime/execute/transfer_mode.h"

namespace braid {

/// Bytes between two signal flags in memory: one cache line each. The flag itself is the first four
/// bytes, a counter that starts at 0.
inline constexpr int64_t kFlagStride = 64;

enum class ArenaKind : uint8_t {
  Symmetric, ///< can be exported to peers
  Private,
  Flags, ///< signal flags, exported like Symmetric; in memory where the host can end a wait
};

/// A signal, await, copy or sum among consecutive commands of a stream.
struct BatchedCommand {
  CommandKind kind; ///< Signal, Await, Copy or Sum
  uint32_t command; ///< index into plan->commands
  void *flag;       ///< Signal, Await
  void *dst;        ///< Copy
  const void *src;
  int64_t bytes;
  const SumArgs *sum = nullptr; ///< Sum
  /// Signal: what it publishes. Copy: Peers if it writes to a peer. Peers is always safe.
  Published published = Published::Peers;
};

/// Returns true if the command copies the whole result of the sum to a peer.
bool gives(const Command &command, const PlanSum &sum);
/// Returns true if a command of `plan` is in the same batch as the preceding one. A batch has
/// consecutive signals, awaits and copies of a stream, the sum that directly follows, awaits after
/// it, and, if copies then send that sum to peers, the commands after these.
bool continuesBatch(const Plan &plan, size_t command);
/// Returns the index of the first command after the batch that begins with `first`.
size_t endOfBatch(const Plan &plan, size_t first);

/// Access to peers' memory, and the commands that use it. Issue functions are as in Device.
class PeerMemory {
public:
  virtual ~PeerMemory() = default;

  /// True if a flag holds the epoch of its last signal. False if it only holds a mark, which the
  /// await resets: then every signal must be awaited before the next one. Programs that the checker
  /// accepts do so.
  virtual bool countsRuns() const { return true; }
  /// Returns false if a transfer mode is not supported.
  virtual bool offers(TransferMode mode) const { return mode == TransferMode(); }
  /// Returns the arena of the flags that are signalled and awaited in this mode.
  virtual ArenaKind arenaOfFlags(TransferMode) const { return ArenaKind::Flags; }

  // -- While preparing. --

  /// Returns a handle for a peer's open(). `base` is from Device::allocate(Symmetric or Flags). The
  /// handle of a base does not change until the base is recycled.
  virtual Result<std::string> exportMemory(void *base) = 0;
  /// As Device::allocate(Symmetric), from a provider. Fails with Unsupported if there is no such
  /// memory here.
  virtual Result<void *> allocateFrom(MemoryFrom from, int64_t bytes);
  /// Returns the address at which this rank's device accesses the memory that `peer` exported.
  /// Valid until the peer's memory is recycled, or the device destroyed.
  virtual Result<void *> open(int64_t peer, const std::string &handle) = 0;

  // -- Freeing memory that peers have mapped, in this order, as executor.cpp does. --

  /// Names the memory to free, which no program here uses any more. With `isAll`, names all of it;
  /// otherwise only memory that was unused at the last call, too, because the next program may be
  /// about to need as much. Empty if there is none.
  virtual std::string unusedMemory([[maybe_unused]] bool isAll) { return ""; }
  /// Unmaps the memory that unusedMemory() of `peer` named, as far as it is open here.
  virtual void closeUnused([[maybe_unused]] int64_t peer,
                           [[maybe_unused]] const std::string &unused) {}
  /// Frees the memory that unusedMemory() named. Requires that no peer has it open, and that
  /// Device::recycle() was called since.
  virtual void freeUnused() {}

  // -- Issuing. --

  /// Issues consecutive commands of a stream:
  /// * a copy is as Device::copy(); either side may be an address from open();
  /// * a signal writes `tag.run` into a flag of a peer or of this rank once everything before it on
  ///   the stream is complete and visible to a reader of the new value;
  /// * an await blocks the stream until a flag of this rank has reached `tag.run`, in cyclic order:
  ///   int32(flag - run) >= 0. Everything before the matching signal is then visible;
  /// * a sum is as Compute::sum().
  /// A device may use one launch for several. If `areDisjoint`, no copy accesses what another one
  /// writes. `tag.command` is that of the first step.
  virtual void issueBatch(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps,
                          bool areDisjoint, TransferMode mode) = 0;
};

} // namespace braid
