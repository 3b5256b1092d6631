//===- backends/cuda/memory/symmetric_memory.h - device memory that peers reach ---------------===//
//
// The same interface over several providers. None of them stands in for another: what cannot be had
// from the one that was asked for is an error. NVLink multicast is not used by any.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/cuda_status.h"
#include "runtime/execute/peer_memory.h"
#include "runtime/job/process_group.h"

#include <memory>

namespace braid {

/// One rank's memory of a provider, and what it has mapped of its peers'. Calls are made by the
/// rank's host thread, whose GPU is the rank's. What is left is freed by the destructor, after
/// closePeers() on all ranks.
class SymmetricMemory {
public:
  virtual ~SymmetricMemory() = default;

  /// All ranks allocate as often and as much, in the same order.
  virtual bool isCollective() const { return false; }
  /// Allocations are multiples of so many bytes.
  virtual size_t granularity() const = 0;

  /// `bytes` of device memory, with any contents; a multiple of the granularity. If isCollective(),
  /// blocks until all ranks have come.
  virtual Result<void *> allocate(size_t bytes) = 0;
  /// A handle that a peer's open() turns into an address: printable, without line breaks. `base`
  /// came from allocate().
  virtual Result<std::string> exportMemory(void *base) = 0;
  /// The address of what `peer` exported, valid until close() or closePeers(). Each allocation of
  /// a peer is opened once at a time.
  virtual Result<void *> open(int64_t peer, llvm::StringRef handle) = 0;

  /// False: what was allocated or opened stays so until the end, and the next two are not called.
  virtual bool givesBack() const { return false; }
  /// Frees what came from allocate(); no peer has it open.
  virtual void free([[maybe_unused]] void *base) {}
  /// Unmaps what came from open().
  virtual void close([[maybe_unused]] void *base) {}

  /// Unmaps what is the peers'. Of an aborted job too, and then without waiting for anybody.
  virtual void closePeers() = 0;
};

/// Makes a provider on this rank. Unsupported, with the reason, if this machine has none.
std::unique_ptr<SymmetricMemory> makeIpcMemory();
Result<std::unique_ptr<SymmetricMemory>> makeVmmMemory(ProcessGroup &group);

/// Numbers and names in a handle, one after the other: "17:0:cafe".
class HandleReader {
public:
  explicit HandleReader(llvm::StringRef text) : rest_(text) {}
  /// The next field. Empty behind the last one.
  llvm::StringRef next() {
    const auto [field, rest] = rest_.split(':');
    rest_ = rest;
    return field;
  }
  /// The text after the last field that was read.
  llvm::StringRef rest() const { return rest_; }
  template <class Number> bool read(Number &number) { return !next().getAsInteger(10, number); }

private:
  llvm::StringRef rest_;
};

} // namespace braid
