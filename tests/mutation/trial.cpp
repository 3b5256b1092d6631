//===- tests/mutation/trial.cpp - runs Plans in given orders and compares results -------------===//

#include "tests/mutation/trial.h"

#include "backends/cpu/cpu_backend.h"
#include "ir/failure.h"

#include <barrier>
#include <cstring>
#include <thread>

namespace braid::test {
namespace {

using Bytes = std::vector<double>; ///< double guarantees alignment

Bytes bytesOf(int64_t count) { return Bytes(static_cast<size_t>(count) / sizeof(double) + 1); }

/// Bytes of 0xff are NaNs in every element type.
Bytes nans(int64_t count) {
  Bytes bytes = bytesOf(count);
  std::memset(bytes.data(), 0xff, bytes.size() * sizeof(double));
  return bytes;
}

/// A rank and its caller's memory.
class Rank {
public:
  Rank(const Case &original, const Plan &plan, Cluster &cluster, const TrialOptions &options)
      : oracle_(*original.oracle), plan_(plan), device_(cluster.device(plan.rank)),
        control_(cluster.control(plan.rank)), options_(options) {
    // The last element is for runs that share the same addresses.
    for (uint32_t run = 0; run <= options.runs; ++run) {
      tensors_.emplace_back();
      for (uint32_t buffer : plan.inputs)
        tensors_.back().inputs.push_back(bytesOf(plan.buffers[buffer].bytes));
      for (uint32_t buffer : plan.outputs)
        tensors_.back().outputs.push_back(bytesOf(plan.buffers[buffer].bytes));
    }
    for (uint32_t buffer : plan.outputs)
      poison_.push_back(nans(plan.buffers[buffer].bytes));
  }

  /// Collective; blocks.
  Status start() {
    prepared_ = BRAID_TRY(prepare(plan_, device_, control_));
    return Status::ok();
  }
  void issueRound(uint32_t round) {
    const bool areSame = options_.alwaysSameAddresses || round % 2 == 0;
    for (uint32_t run = 0; run < options_.runs; ++run) {
      fill(tensors_[run], round * options_.runs + run);
      if (areSame)
        issueAtSharedPlace(tensors_[run]);
      else
        issue(tensors_[run]);
    }
  }
  Status compareRound(uint32_t round) const {
    for (uint32_t run = 0; options_.compares && run < options_.runs; ++run)
      BRAID_TRY(compare(tensors_[run], round * options_.runs + run));
    return Status::ok();
  }

private:
  struct Tensors {
    std::vector<Bytes> inputs, outputs;
  };

  void fill(Tensors &tensors, uint32_t iteration) {
    for (size_t i = 0; i < tensors.inputs.size(); ++i)
      oracle_.fillInput(i, plan_.rank, iteration, tensors.inputs[i].data());
    for (size_t i = 0; i < tensors.outputs.size(); ++i)
      tensors.outputs[i] = poison_[i];
  }

  void issue(Tensors &tensors) {
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
    for (Bytes &input : tensors.inputs)
      inputs.push_back(input.data());
    for (Bytes &output : tensors.outputs)
      outputs.push_back(output.data());
    prepared_->run(inputs, outputs);
  }

  void issueAtSharedPlace(Tensors &tensors) {
    Tensors &shared = tensors_.back();
    Tag tag{&plan_, kCallerWrites, prepared_->epoch() + 1};
    for (size_t i = 0; i < plan_.inputs.size(); ++i)
      device_.copy(0, tag, shared.inputs[i].data(), tensors.inputs[i].data(),
                   plan_.buffers[plan_.inputs[i]].bytes);
    for (size_t i = 0; i < plan_.outputs.size(); ++i)
      device_.copy(0, tag, shared.outputs[i].data(), poison_[i].data(),
                   plan_.buffers[plan_.outputs[i]].bytes);
    issue(shared);
    tag.command = kCallerReads;
    for (size_t i = 0; i < plan_.outputs.size(); ++i)
      device_.copy(0, tag, tensors.outputs[i].data(), shared.outputs[i].data(),
                   plan_.buffers[plan_.outputs[i]].bytes);
  }

  Status compare(const Tensors &tensors, uint32_t iteration) const {
    for (size_t i = 0; i < tensors.outputs.size(); ++i)
      if (Status status = oracle_.compare(i, plan_.rank, iteration, tensors.outputs[i].data());
          !status.isOk())
        return status;
    return Status::ok();
  }

  const Oracle &oracle_;
  const Plan &plan_;
  Device &device_;
  ControlPlane &control_;
  const TrialOptions &options_;
  std::unique_ptr<Prepared> prepared_;
  std::vector<Tensors> tensors_;
  std::vector<Bytes> poison_;
};

/// Runs all rounds of a trial. Each rank has a thread, because ranks wait for one another.
class Rounds {
public:
  Rounds(std::vector<Rank> &ranks, Cluster &cluster, Orders &orders)
      : ranks_(ranks), cluster_(cluster), orders_(orders), statuses_(ranks.size()) {}

  Status run() {
    std::barrier next(static_cast<ptrdiff_t>(ranks_.size()), [this]() noexcept { begin(); });
    std::vector<std::thread> threads;
    for (size_t number = 0; number < ranks_.size(); ++number)
      threads.emplace_back([this, number, &next] {
        const auto rank = static_cast<int64_t>(number);
        statuses_[number] = ranks_[number].start();
        if (!statuses_[number].isOk())
          cluster_.control(rank).abort(statuses_[number]);
        for (next.arrive_and_wait(); hasNext_; next.arrive_and_wait())
          statuses_[number] = cluster_.device(rank).synchronize();
      });
    for (std::thread &thread : threads)
      thread.join();
    return first_;
  }

private:
  /// Compares the results of the last round, if any, and issues the next one. All ranks wait.
  void begin() {
    for (size_t number = 0; number < ranks_.size() && first_.isOk(); ++number)
      first_ = statuses_[number];
    for (size_t number = 0; number < ranks_.size() && first_.isOk() && round_ > 0; ++number)
      first_ = ranks_[number].compareRound(round_ - 1);
    hasNext_ = first_.isOk() && orders_.next();
    for (size_t number = 0; number < ranks_.size() && hasNext_; ++number)
      ranks_[number].issueRound(round_);
    ++round_;
  }

  std::vector<Rank> &ranks_;
  Cluster &cluster_;
  Orders &orders_;
  std::vector<Status> statuses_; ///< the status of the last call of each rank
  Status first_;                 ///< the first failure
  uint32_t round_ = 0;           ///< the number of rounds that were begun
  bool hasNext_ = false;
};

} // namespace

Status runTrial(const Case &original, llvm::ArrayRef<Plan> plans, Orders &orders,
                const TrialOptions &options) {
  ClusterOptions cluster;
  cluster.ranks = static_cast<int64_t>(plans.size());
  cluster.queues = options.queues;
  const std::unique_ptr<Cluster> created = BRAID_TRY(createCpuCluster(
      cluster, [&](llvm::ArrayRef<RunnableHead> candidates) { return orders.pick(candidates); }));
  std::vector<Rank> ranks;
  for (const Plan &plan : plans)
    ranks.emplace_back(original, plan, *created, options);
  return Rounds(ranks, *created, orders).run();
}

} // namespace braid::test
