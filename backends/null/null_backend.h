//===- backends/null/null_backend.h - a backend that executes nothing -------------------------===//
//
// A device whose commands do nothing. The null backend is used to measure how fast a Plan is
// issued, lets tests inspect the issued commands, and is a minimal example of a backend. The
// README.md in this folder explains how to write a backend.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/backend.h"
#include "runtime/job/host_memory.h"

namespace braid {

/// Registers the backend "null", whose clusters consist of NullDevices.
void registerNullBackend(BackendRegistry &registry);

/// Counts the calls to a device's issue functions.
struct NullCounts {
  uint64_t copies = 0;
  uint64_t copiedBytes = 0;
  uint64_t matmuls = 0;
  uint64_t sums = 0;
  uint64_t pointwise = 0;
  uint64_t signals = 0;
  uint64_t awaits = 0;
  uint64_t records = 0;
  uint64_t waitEvents = 0;

  uint64_t commands() const {
    return copies + matmuls + sums + pointwise + signals + awaits + records + waitEvents;
  }
};

/// Allocates zeroed host memory, to which only the caller writes. Every command completes as soon
/// as it is issued.
class NullDevice final : public Device, public Compute, public PeerMemory, public Tracer {
public:
  NullDevice(RankGroup &group, int64_t rank, bool isReproducible = false)
      : group_(group), memory_(rank, nullptr), isReproducible_(isReproducible) {}

  const NullCounts &counts() const { return counts_; }
  uint32_t streams() const { return streams_; }

  Compute &compute() override { return *this; }
  PeerMemory *peerMemory() override { return this; }
  Tracer *tracer() override { return this; }
  Result<void *> allocate(ArenaKind kind, int64_t bytes) override {
    return memory_.allocate(kind, bytes);
  }
  Status reserveStreams(uint32_t count) override;
  Result<uint32_t> createEvents(uint32_t count) override;
  void release(void *base) override { memory_.release(base); }
  void recycle() override { memory_.recycle(); }
  int64_t heldBytes() override { return memory_.heldBytes(); }
  void copy(uint32_t, Tag, void *, const void *, int64_t bytes) override {
    ++counts_.copies;
    counts_.copiedBytes += static_cast<uint64_t>(bytes);
  }
  void record(uint32_t, Tag, uint32_t) override { ++counts_.records; }
  void waitEvent(uint32_t, Tag, uint32_t) override { ++counts_.waitEvents; }
  Status synchronize() override { return group_.failure(); }

  // -- Compute. --

  /// Either value would be correct, because no results are computed.
  bool isReproducible() const override { return isReproducible_; }
  Status warm(const PlanMatmul &) override { return Status::ok(); }
  void matmul(uint32_t, Tag, const MatmulArgs &) override { ++counts_.matmuls; }
  void sum(uint32_t, Tag, const SumArgs &) override { ++counts_.sums; }
  void pointwise(uint32_t, Tag, const PointwiseArgs &) override { ++counts_.pointwise; }

  // -- PeerMemory. --

  Result<std::string> exportMemory(void *base) override { return memory_.exportMemory(base); }
  Result<void *> open(int64_t peer, const std::string &handle) override {
    return memory_.open(peer, handle);
  }
  void issueBatch(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps, bool,
                  TransferMode) override;

  void startTrace() override {}
  /// Returns no spans, because no command runs.
  std::vector<Span> takeTrace() override { return {}; }

private:
  RankGroup &group_;
  HostMemory memory_;
  const bool isReproducible_;
  NullCounts counts_;
  uint32_t streams_ = 1;
  uint32_t events_ = 0;
};

} // namespace braid
