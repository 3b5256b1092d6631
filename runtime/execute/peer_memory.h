//===- runtime/execute/peer_memory.h - memory that peers reach --------------------------------===//
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
  Flags, ///< signal flags, exported like Symmetric: where the host can end a wait for one
};

/// A signal, an await, a copy or a sum, of those that a stream gets one right after the other.
struct BatchedCommand {
  CommandKind kind; ///< Signal, Await, Copy or Sum
  uint32_t command; ///< index into plan->commands
  void *flag;       ///< Signal, Await
  void *dst;        ///< Copy
  const void *src;
  int64_t bytes;
  const SumArgs *sum = nullptr; ///< Sum
  /// Signal: what it makes known. Copy: Peers if it writes there. Peers stands for all of them.
  Published published = Published::Peers;
};

/// Is it a copy of all that the sum makes, to a peer?
bool gives(const Command &command, const PlanSum &sum);
/// Is a command of `plan` issued in one batch with the one before it? So are signals, awaits and
/// copies that follow one another on a stream, the sum right behind them, awaits behind that, and,
/// where copies then give that sum, what is behind these.
bool continuesBatch(const Plan &plan, size_t command);
/// The first command behind the batch that begins with `first`.
size_t endOfBatch(const Plan &plan, size_t first);

/// Addresses of peers, and commands that go there. Issue functions are as Device's.
class PeerMemory {
public:
  virtual ~PeerMemory() = default;

  /// True if a flag counts: it holds the epoch of its last signal. False if it only holds a mark,
  /// which the await takes away: then every signal has to be awaited before the next one. Programs
  /// that the checker accepts do so.
  virtual bool countsRuns() const { return true; }
  /// False for a transfer mode that there is not here.
  virtual bool offers(TransferMode mode) const { return mode == TransferMode(); }
  /// The arena of the flags that are signalled and awaited in this mode.
  virtual ArenaKind arenaOfFlags(TransferMode) const { return ArenaKind::Flags; }

  // -- While preparing. --

  /// A handle that a peer's open() turns into an address. `base` came from
  /// Device::allocate(Symmetric or Flags). The same for the same base until it is recycled.
  virtual Result<std::string> exportMemory(void *base) = 0;
  /// As Device::allocate(Symmetric), once for each of `bytes`, from memory other than the default
  /// that the backend offers. Collective: all ranks call it with the same `from` and as many sizes.
  /// Blocks. Unsupported, on all ranks, if one of them has not got such memory.
  virtual Result<std::vector<void *>> allocateFrom(MemoryFrom from, llvm::ArrayRef<int64_t> bytes,
                                                   ControlPlane &control);
  /// The address at which this rank's device reaches the memory that `peer` exported. Valid until
  /// the peer's memory is recycled, or the device destroyed.
  virtual Result<void *> open(int64_t peer, const std::string &handle) = 0;

  // -- Giving back what peers have mapped, in this order; recycle() of executor.h does it. --

  /// Names memory that no program here uses any more: what to free. With `isAll` all of it, else
  /// what was unused the last time, too: the next program may be about to need as much. Empty:
  /// there is none.
  virtual std::string unusedMemory([[maybe_unused]] bool isAll) { return ""; }
  /// Unmaps what unusedMemory() of `peer` named, as far as it is open here.
  virtual void closeUnused([[maybe_unused]] int64_t peer,
                           [[maybe_unused]] const std::string &unused) {}
  /// Frees what unusedMemory() named. No peer has it open, and Device::recycle() was called since.
  virtual void freeUnused() {}

  // -- Issuing. --

  /// Commands that a stream gets one after the other:
  /// * a copy is as Device::copy(), and either side may be an address of open();
  /// * a signal writes `tag.run` into a flag, of a peer or our own, after everything before it on
  ///   the stream is done and visible to whoever sees the flag's new value;
  /// * an await lets the stream go on when a flag of our own has reached `tag.run`, in cyclic
  ///   order: int32(flag - run) >= 0. What was done before the matching signal is visible then;
  /// * a sum is as Compute::sum().
  /// A device may need fewer launches for several. If `areDisjoint`, no copy reads or writes what
  /// another one writes. `tag.command` is that of the first step.
  virtual void issueBatch(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps,
                          bool areDisjoint, TransferMode mode) = 0;
};

} // namespace braid
