//===- backends/cpu/messages/link.h - what carries a rank's messages --------------------------===//
#pragma once

#include "backends/cpu/messages/transfer.h"
#include "runtime/execute/tag.h"

#include "llvm/ADT/STLExtras.h"

#include <atomic>
#include <chrono>

namespace braid {

/// Messages of one rank that move at the same time.
struct Exchange {
  Tag tag; ///< of the command that they belong to
  llvm::MutableArrayRef<Transfer> transfers;
  bool isKnown = false; ///< the link's: advance() was called for it

  bool isOver() const {
    return llvm::all_of(transfers, [](const Transfer &each) { return each.isOver(); });
  }
};

/// How far one got.
enum class Advance : uint8_t { IsOver, Moved, Waits };

/// Moves messages between a rank and its peers, one exchange at a time, which any of the rank's
/// workers may drive. A send is over when its receive has been posted, and what was sent may be
/// written again.
class Link {
public:
  virtual ~Link() = default;

  /// As Messages::openTeams.
  virtual Status open(ControlPlane &control) = 0;
  virtual bool isOpen() const = 0;

  /// Moves what can be moved without waiting, up to some megabytes. Fails if the two sides of a
  /// message do not fit, or a peer has gone.
  virtual Result<Advance> advance(Exchange &exchange) = 0;
  /// advance() would move something now. Only where all ranks have one thread at a time.
  virtual bool canAdvance(const Exchange &exchange) const = 0;
  /// Sleeps until that may be so, at most for `slice`. `bell`: what bell() was before advance().
  virtual void sleep(const Exchange &exchange, uint32_t bell, std::chrono::milliseconds slice) = 0;
  /// A number that changes when something has come, and a futex.
  virtual const std::atomic<uint32_t> &bell() const = 0;
  /// After an abort: no peer reads what this exchange sends when it returns.
  virtual void withdraw(Exchange &exchange) = 0;
};

} // namespace braid
