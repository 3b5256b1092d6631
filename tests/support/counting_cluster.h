//===- tests/support/counting_cluster.h - counts the arenas that programs use -----------------===//
#pragma once

#include "runtime/execute/backend.h"

#include <algorithm>
#include <chrono>
#include <deque>

namespace braid::test {

/// Forwards all calls to another device and counts some of them.
class CountingDevice final : public Device, public Stopwatch {
public:
  explicit CountingDevice(Device &inner) : inner_(inner) {}

  /// Returns the maximum number of symmetric arenas that were allocated at the same time.
  size_t mostHeld() const { return most_; }

  size_t synchronizations() const { return synchronizations_; }
  /// Simulates a GPU on which all runs between two waits take `run` in total. If `event` is set,
  /// each recorded event adds `event` to the time on the host's clock, whereas the device's
  /// stopwatch reports shorter times if runs record more events.
  void actAsGpu(std::chrono::microseconds run, std::chrono::microseconds event = {}) {
    isGpu_ = true;
    run_ = run;
    event_ = event;
  }

  bool sharesHostMemory() const override { return !isGpu_ && inner_.sharesHostMemory(); }
  Result<void *> allocate(ArenaKind kind, int64_t bytes) override {
    Result<void *> base = inner_.allocate(kind, bytes);
    if (base && kind == ArenaKind::Symmetric)
      held_.push_back(*base);
    most_ = std::max(most_, held_.size());
    return base;
  }
  void release(void *base) override {
    held_.erase(std::remove(held_.begin(), held_.end(), base), held_.end());
    inner_.release(base);
  }
  void releaseEvents(uint32_t first) override { inner_.releaseEvents(first); }
  void recycle() override { inner_.recycle(); }
  int64_t heldBytes() override { return inner_.heldBytes(); }
  Status reserveStreams(uint32_t count) override { return inner_.reserveStreams(count); }
  Result<uint32_t> createEvents(uint32_t count) override { return inner_.createEvents(count); }
  Compute &compute() override { return inner_.compute(); }
  PeerMemory *peerMemory() override { return inner_.peerMemory(); }
  Tracer *tracer() override { return inner_.tracer(); }
  Stopwatch *stopwatch() override { return event_.count() > 0 ? this : nullptr; }
  void copy(uint32_t stream, Tag tag, void *dst, const void *src, int64_t bytes) override {
    inner_.copy(stream, tag, dst, src, bytes);
  }
  void record(uint32_t stream, Tag tag, uint32_t event) override {
    events_ += 1;
    runs_ += tag.run == lastRun_ ? 0 : 1;
    lastRun_ = tag.run;
    inner_.record(stream, tag, event);
  }
  void waitEvent(uint32_t stream, Tag tag, uint32_t event) override {
    inner_.waitEvent(stream, tag, event);
  }
  Status synchronize() override {
    ++synchronizations_;
    for (const auto start = Clock::now(); Clock::now() - start < run_ + events_ * event_;)
      ;
    clockedUs_ = runs_ == 0 ? kSlowUs : kSlowUs * runs_ / (4 + events_ / runs_);
    events_ = runs_ = 0;
    return inner_.synchronize();
  }
  void startClock() override {}
  void stopClock() override {}
  double clockedUs() override { return clockedUs_; }

private:
  using Clock = std::chrono::steady_clock;
  Device &inner_;
  std::vector<void *> held_;
  size_t most_ = 0, synchronizations_ = 0;
  bool isGpu_ = false;
  std::chrono::microseconds run_{0}, event_{0};
  static constexpr double kSlowUs = 1e3; ///< time of a run without events, or of all runs
  int events_ = 0, runs_ = 0;            ///< since the last synchronize()
  uint32_t lastRun_ = 0;
  double clockedUs_ = 0;
};

/// Wraps all devices of another cluster in CountingDevices.
class CountingCluster final : public Cluster {
public:
  explicit CountingCluster(Cluster &inner) : inner_(inner) {
    for (int64_t rank = 0; rank < inner.ranks(); ++rank)
      devices_.emplace_back(inner.device(rank));
  }
  int64_t ranks() const override { return inner_.ranks(); }
  CountingDevice &device(int64_t rank) override { return devices_[static_cast<size_t>(rank)]; }
  ControlPlane &control(int64_t rank) override { return inner_.control(rank); }

private:
  Cluster &inner_;
  std::deque<CountingDevice> devices_;
};

} // namespace braid::test
