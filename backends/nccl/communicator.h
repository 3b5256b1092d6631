//===- backends/nccl/communicator.h - the ranks of a team, connected --------------------------===//
#pragma once

#include "backends/nccl/nccl_library.h"
#include "runtime/execute/transfer_mode.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

namespace braid::nccl {

/// The time limit for NCCL's background work, and what ends it early.
struct Patience {
  std::chrono::milliseconds timeout{60000};
  std::function<bool()> isAborted = [] { return false; }; ///< any thread
};

/// A communicator that does not block. Calls are made by one thread, but for error() and abort().
class Communicator {
public:
  /// The communicator of member `position` of `members`. Collective; blocks until all members have
  /// made this call. All pass the same `ctas`, whose policy the library must support.
  static Result<std::unique_ptr<Communicator>> create(const Library &library, const UniqueId &id,
                                                      int position, int members, Ctas ctas,
                                                      const Patience &patience);
  /// Gives nothing back: close() or abort() comes before.
  ~Communicator() = default;

  Comm *get() const { return comm_.load(); }
  /// The outcome of a call that returned `code`. Waits while the call is in progress; after
  /// prepare, that is no wait for a peer. `call` is its name.
  Status finish(Code code, const char *call) const;
  /// An error that the library found by itself. Any thread.
  Status error() const;
  /// Collective: all members close, while none has anything in flight.
  Status close();
  /// Ends whatever is in flight, and the communicator. May block for ever while a graph holds what
  /// it has captured. Any thread; once.
  void abort();

private:
  Communicator(const Library &library, Patience patience)
      : library_(library), patience_(std::move(patience)) {}
  Status failure(Code code, const char *call) const;

  const Library &library_;
  const Patience patience_;
  std::atomic<Comm *> comm_{nullptr};
};

} // namespace braid::nccl
