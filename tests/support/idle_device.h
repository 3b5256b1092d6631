//===- tests/support/idle_device.h - a device that does nothing -------------------------------===//
//
// Base class for tests that record calls to a device. The tests override the recorded functions.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/control_plane.h"
#include "runtime/execute/device.h"

namespace braid::test {

class IdleDevice : public Device, public Compute, public PeerMemory {
public:
  Compute &compute() override { return *this; }
  PeerMemory *peerMemory() override { return this; }

  Result<void *> allocate(ArenaKind kind, int64_t) override {
    return static_cast<void *>(&arenas[static_cast<size_t>(kind)]);
  }
  Status reserveStreams(uint32_t) override { return Status::ok(); }
  Result<uint32_t> createEvents(uint32_t) override { return 0u; }
  void copy(uint32_t, Tag, void *, const void *, int64_t) override {}
  void record(uint32_t, Tag, uint32_t) override {}
  void waitEvent(uint32_t, Tag, uint32_t) override {}
  Status synchronize() override { return Status::ok(); }

  Status warm(const PlanMatmul &) override { return Status::ok(); }
  void matmul(uint32_t, Tag, const MatmulArgs &) override {}
  void sum(uint32_t, Tag, const SumArgs &) override {}
  void pointwise(uint32_t, Tag, const PointwiseArgs &) override {}

  Result<std::string> exportMemory(void *) override { return std::string("memory"); }
  Result<void *> open(int64_t, const std::string &) override { return nullptr; }
  void issueBatch(uint32_t, Tag, llvm::ArrayRef<BatchedCommand>, bool, TransferMode) override {}

  char arenas[3] = {};
};

/// The control plane of a single rank.
class Alone : public ControlPlane {
public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  Result<std::vector<std::string>> allGather(std::string mine) override {
    return std::vector<std::string>{std::move(mine)};
  }
  Status commit() override { return Status::ok(); }
  void abort(const Status &) override {}
  Status failure() const override { return Status::ok(); }
};

} // namespace braid::test
