//===- backends/nccl/communicator.h - the communicator of a team ------------------------------===//
#pragma once

#include "backends/nccl/nccl_library.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

namespace braid::nccl {

/// The time limit for waiting for NCCL's background work, and a condition that ends a wait early.
struct Patience {
  std::chrono::milliseconds timeout{60000};
  std::function<bool()> isAborted = [] { return false; }; ///< callable from any thread
};

/// A non-blocking communicator. Call from a single thread, except for error() and abort().
class Communicator {
public:
  /// Creates a communicator for the member at `position` in a team of `members` members.
  /// Collective: blocks until all members have called create().
  static Result<std::unique_ptr<Communicator>> create(const Library &library, const UniqueId &id,
                                                      int position, int members,
                                                      const Patience &patience);
  /// Does not destroy the NCCL communicator; call close() or abort() first.
  ~Communicator() = default;

  Comm *get() const { return comm_.load(); }
  /// Waits for the completion of a call that returned `code`, and returns the call's outcome. After
  /// prepare(), the wait never depends on a peer. `call` names the function in error messages.
  Status finish(Code code, const char *call) const;
  /// Returns any asynchronous error of the library. Callable from any thread.
  Status error() const;
  /// Collective: all members must call close(), with no operations in flight.
  Status close();
  /// Ends all operations in flight and destroys the communicator. May block forever if a graph
  /// contains captured operations. Callable once, from any thread.
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
