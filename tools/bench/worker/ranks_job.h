//===- tools/bench/worker/ranks_job.h - the job of processes that times our rows --------------===//
//
// launch() belongs to the main thread and returns when a job is over, so the bench itself is a
// second thread: it asks for a job, talks to its rank 0 through named pipes, and learns how it
// ended.
//
//   RanksJob job(flags, folder);
//   std::thread bench([&] { ... job.start() ... job.ask() ...; job.close(); });
//   job.runJobs();
//   bench.join();
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/launch/launch.h"
#include "tools/bench/flags.h"
#include "tools/bench/worker/channel.h"
#include "tools/bench/worker/worker.h"

#include <condition_variable>
#include <mutex>

namespace braid::tools {

class RanksJob final : public BenchWorker {
public:
  /// `folder` is private and outlives this.
  RanksJob(const BenchFlags &flags, std::string folder)
      : flags_(flags), folder_(std::move(folder)) {}

  // -- Of the main thread. --

  /// Runs one job after another, as they are asked for, until close().
  void runJobs();

  // -- Of the bench's thread. --

  Status start() override;
  Result<Answer> ask(nlohmann::json request) override;
  /// Ends the job, if one runs, and blocks until it is gone.
  void end();
  /// end(), and no more jobs.
  void close();
  /// What the ranks run on, in their words, once one has started.
  const std::string &device() const { return device_; }
  /// What each rank of the running job has allocated, as of its last answer.
  int64_t allocatedBytes() const { return allocatedBytes_; }
  /// How many rows it has prepared since it started.
  int64_t preparedRows() const { return preparedRows_; }
  /// The signal that ended a job, or 0. No job starts after it.
  int interruptedBy() const;
  const std::string &folder() const { return folder_; }

private:
  enum class State { Idle, Wanted, Running, Closed };
  LaunchOptions launchOptions() const;
  Status makePipes();
  Result<nlohmann::json> receive(uint64_t id);
  bool isOver() const;
  bool isRunning() const { return channel_.isOpen() && !isOver(); }
  Status ending();

  const BenchFlags &flags_;
  const std::string folder_;
  Channel channel_;
  std::string requests_, answers_; ///< paths of the pipes
  std::string device_;
  int64_t allocatedBytes_ = 0, preparedRows_ = 0;
  uint64_t jobs_ = 0, lastId_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::Idle;     ///< under mutex_, as is what follows
  Status lastEnd_ = Status::ok(); ///< of the job before
  int signal_ = 0;
};

} // namespace braid::tools
