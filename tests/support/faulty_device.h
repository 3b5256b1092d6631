//===- tests/support/faulty_device.h - a device that damages one transfer ---------------------===//
//
// Forwards everything to another device, except that it can deliver one transfer wrongly. The
// damage is issued as commands of the same stream, so it happens when and where the transfer does:
// everything after it goes on as if all were well. For backends whose memory is the host's.
//
//===----------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/device.h"

namespace braid::test {

enum class Damage {
  Drop,      ///< copies nothing: what lay there stays
  Stale,     ///< copies what the last undamaged run transferred
  Misplaced, ///< copies from somewhere else
  Shifted,   ///< copies every element from its neighbour, the last one from the first
  OffByOne,  ///< copies, then adds 1 to one element
};
const char *name(Damage damage);

struct Fault {
  Damage damage = Damage::Drop;
  uint32_t transfer = 0; ///< which of the rank's copies from or to a peer, in issue order
  uint32_t run = 1;
  int64_t element = 0;               ///< OffByOne
  const void *replacement = nullptr; ///< Misplaced; stays valid and unchanged until the run is done
};

class FaultyDevice final : public Device, public PeerMemory {
public:
  /// `plan` is the one that will be run. Both outlive this.
  FaultyDevice(Device &inner, const Plan &plan);

  /// The rank's side of each of its copies from or to a peer, in issue order.
  llvm::ArrayRef<Endpoint> transfers() const { return transfers_; }
  /// Arms one fault, in place of the one before. Only between runs that are done.
  void inject(const Fault &fault);
  /// The number of faults issued so far.
  int64_t struck() const { return struck_; }

  Compute &compute() override { return inner_.compute(); }
  PeerMemory *peerMemory() override { return this; }
  Tracer *tracer() override { return inner_.tracer(); }
  Result<void *> allocate(ArenaKind kind, int64_t bytes) override {
    return inner_.allocate(kind, bytes);
  }
  Status reserveStreams(uint32_t count) override { return inner_.reserveStreams(count); }
  Result<uint32_t> createEvents(uint32_t count) override { return inner_.createEvents(count); }
  void release(void *base) override { inner_.release(base); }
  void releaseEvents(uint32_t first) override { inner_.releaseEvents(first); }
  void recycle() override { inner_.recycle(); }
  int64_t heldBytes() override { return inner_.heldBytes(); }
  void copy(uint32_t stream, Tag tag, void *dst, const void *src, int64_t bytes) override {
    inner_.copy(stream, tag, dst, src, bytes);
  }
  void record(uint32_t stream, Tag tag, uint32_t event) override {
    inner_.record(stream, tag, event);
  }
  void waitEvent(uint32_t stream, Tag tag, uint32_t event) override {
    inner_.waitEvent(stream, tag, event);
  }
  Status synchronize() override { return inner_.synchronize(); }
  std::vector<PendingWait> pending() override { return inner_.pending(); }

  Result<std::string> exportMemory(void *base) override { return peers().exportMemory(base); }
  Result<void *> open(int64_t peer, const std::string &handle) override {
    return peers().open(peer, handle);
  }
  void issueBatch(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps, bool areDisjoint,
                  TransferMode mode) override;

private:
  /// The arguments of a copy.
  struct Transfer {
    uint32_t number;
    uint32_t stream;
    Tag tag;
    char *dst;
    const char *src;
    int64_t bytes;
  };
  PeerMemory &peers() { return *inner_.peerMemory(); }
  void copyStep(uint32_t stream, Tag tag, const BatchedCommand &step);
  void copyNow(const Transfer &transfer, void *dst, const void *src, int64_t bytes);
  bool hits(const Transfer &transfer) const;
  void deliver(const Transfer &transfer);
  void damage(const Transfer &transfer);
  void shift(const Transfer &transfer);
  void addOne(const Transfer &transfer);

  Device &inner_;
  std::vector<uint32_t> transferOf_; ///< for each command: the number of its transfer, or kNone
  std::vector<Endpoint> transfers_;
  std::vector<std::vector<char>> delivered_; ///< by the last undamaged run, for each transfer
  Fault fault_;
  bool armed_ = false;
  int64_t struck_ = 0;
};

} // namespace braid::test
