//===- backends/cuda/memory/symmetric_memory.h - device memory that peers can access ----------===//
//
// An interface with several implementations (providers). There is no fallback: if the requested
// provider is unavailable, allocation fails. No provider uses NVLink multicast.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/cuda_status.h"
#include "runtime/execute/peer_memory.h"
#include "runtime/job/process_group.h"

#include <memory>

namespace braid {

/// Provides one rank's memory and maps peers' memory. Called by the rank's host thread while the
/// rank's GPU is current. CudaMemory is responsible for freeing and closing all memory.
class SymmetricMemory {
public:
  virtual ~SymmetricMemory() = default;

  /// Returns the allocation granularity in bytes.
  virtual size_t granularity() const = 0;

  /// Allocates uninitialized device memory; `bytes` must be a multiple of the granularity.
  virtual Result<void *> allocate(size_t bytes) = 0;
  /// Returns a handle for a peer's open(): printable text without line breaks. `base` must have
  /// been returned by allocate().
  virtual Result<std::string> exportMemory(void *base) = 0;
  /// Maps the allocation that `peer` exported and returns its address, valid until close(). An
  /// allocation that is already open must not be opened again.
  virtual Result<void *> open(int64_t peer, llvm::StringRef handle) = 0;

  /// Frees memory returned by allocate(). No peer may still have the memory mapped.
  virtual void free(void *base) = 0;
  /// Unmaps memory returned by open().
  virtual void close(void *base) = 0;
};

/// Create a provider on this rank. makeVmmMemory() fails with Unsupported and the reason if the
/// machine does not support this kind of memory.
std::unique_ptr<SymmetricMemory> makeIpcMemory();
Result<std::unique_ptr<SymmetricMemory>> makeVmmMemory(ProcessGroup &group);

/// Reads the colon-separated fields of a handle, which are numbers and names: "17:0:cafe".
class HandleReader {
public:
  explicit HandleReader(llvm::StringRef text) : rest_(text) {}
  /// Returns the next field, or an empty string after the last field.
  llvm::StringRef next() {
    const auto [field, rest] = rest_.split(':');
    rest_ = rest;
    return field;
  }
  /// Returns the unread text.
  llvm::StringRef rest() const { return rest_; }
  template <class Number> bool read(Number &number) { return !next().getAsInteger(10, number); }

private:
  llvm::StringRef rest_;
};

} // namespace braid
