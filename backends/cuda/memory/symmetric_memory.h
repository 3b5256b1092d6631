//===- backends/cuda/memory/symmetric_memory.h - device memory that peers can access ----------===//
//
// One interface over several providers. None is a fallback for another: if the requested provider
// is unavailable, that is an error. No provider uses NVLink multicast.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/cuda_status.h"
#include "runtime/execute/peer_memory.h"
#include "runtime/job/process_group.h"

#include <memory>

namespace braid {

/// A provider of one rank's memory and of its mappings of peers' memory. The rank's host thread
/// makes all calls, with the rank's GPU current. CudaMemory frees and closes all of it.
class SymmetricMemory {
public:
  virtual ~SymmetricMemory() = default;

  /// Returns the granularity of allocations in bytes.
  virtual size_t granularity() const = 0;

  /// Allocates `bytes` of device memory, a multiple of the granularity, with undefined contents.
  virtual Result<void *> allocate(size_t bytes) = 0;
  /// Returns a handle for a peer's open(): printable text without line breaks. `base` must be from
  /// allocate().
  virtual Result<std::string> exportMemory(void *base) = 0;
  /// Maps the allocation that `peer` exported and returns its address, valid until close(). Each
  /// allocation of a peer may be open only once at a time.
  virtual Result<void *> open(int64_t peer, llvm::StringRef handle) = 0;

  /// Frees memory from allocate() that no peer has mapped.
  virtual void free(void *base) = 0;
  /// Unmaps memory from open().
  virtual void close(void *base) = 0;
};

/// Creates a provider on this rank. Fails with Unsupported, and the reason, if this machine does
/// not have it.
std::unique_ptr<SymmetricMemory> makeIpcMemory();
Result<std::unique_ptr<SymmetricMemory>> makeVmmMemory(ProcessGroup &group);

/// Reads the fields of a handle, which are numbers and names: "17:0:cafe".
class HandleReader {
public:
  explicit HandleReader(llvm::StringRef text) : rest_(text) {}
  /// Returns the next field; empty after the last one.
  llvm::StringRef next() {
    const auto [field, rest] = rest_.split(':');
    rest_ = rest;
    return field;
  }
  /// Returns the text after the last field that was read.
  llvm::StringRef rest() const { return rest_; }
  template <class Number> bool read(Number &number) { return !next().getAsInteger(10, number); }

private:
  llvm::StringRef rest_;
};

} // namespace braid
