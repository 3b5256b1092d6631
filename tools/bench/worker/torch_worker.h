//===- tools/bench/worker/torch_worker.h - the process that times rows of PyTorch -------------===//
//
// A Python program, tools/torch_rows.py, with ranks of its own on the same devices as ours. It
// talks through its standard input and output, and ends when its input does.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "tools/bench/flags.h"
#include "tools/bench/worker/channel.h"
#include "tools/bench/worker/worker.h"

#include <functional>

#include <sys/types.h>

namespace braid::tools {

class TorchWorker final : public BenchWorker {
public:
  /// `folder` is private and outlives this. Waiting ends when `isCancelled` says so.
  TorchWorker(const BenchFlags &flags, std::string folder, std::function<bool()> isCancelled)
      : flags_(flags), folder_(std::move(folder)), isCancelled_(std::move(isCancelled)) {}
  /// Kills what runs.
  ~TorchWorker() override { kill(); }
  TorchWorker(const TorchWorker &) = delete;

  /// Starts the process without waiting for it, unless it runs: importing PyTorch takes a while.
  Status launch();
  /// After a few failures it starts no more and says why it did not before.
  Status start() override;
  Result<Answer> ask(nlohmann::json request) override;
  /// Asks it to end, and blocks until it is gone.
  void end();
  /// What it runs on, in its words, once it has started.
  const std::string &device() const { return device_; }

private:
  Result<nlohmann::json> receive(uint64_t id, std::chrono::milliseconds patience);
  Status giveUp(const Status &cause);
  void kill();

  const BenchFlags &flags_;
  const std::string folder_;
  const std::function<bool()> isCancelled_;
  Channel channel_;
  pid_t pid_ = 0; ///< 0: none
  bool isReady_ = false;
  std::string device_;
  uint64_t lastId_ = 0;
  int failures_ = 0;
  Status lastFailure_ = Status::ok();
};

} // namespace braid::tools
