//===- tests/mutation/orders.cpp - the orders of commands in a trial --------------------------===//

#include "tests/mutation/orders.h"

#include "tests/mutation/priority_picker.h"

#include <algorithm>

namespace braid::test {
namespace {

std::vector<Footprint> footprintOf(const QueuedCommand &command) {
  std::vector<Footprint> touched;
  auto add = [&](const void *begin, int64_t bytes, bool isWrite) {
    if (begin)
      touched.push_back({static_cast<const char *>(begin), bytes, isWrite});
  };
  if (command.kind == QueuedCommand::Kind::Matmul) {
    const MatmulArgs &m = command.args.matmul;
    const int64_t size = sizeOf(m.dtype);
    add(m.a, m.m * m.k * size, false);
    add(m.b, m.k * m.n * size, false);
    add(m.bias, m.n * size, false);
    add(m.addend, m.m * m.n * sizeOf(m.result), false);
    add(m.c, m.m * m.n * sizeOf(m.result), true);
  } else if (command.kind == QueuedCommand::Kind::Sum) {
    const SumArgs &sum = command.args.sum;
    for (int64_t i = 0; i < sum.count; ++i)
      add(static_cast<const char *>(sum.parts) + i * sum.stride, sum.elements * sizeOf(sum.partial),
          false);
    add(sum.bias, sum.biasElements * sizeOf(sum.dtype), false);
    add(sum.dst, sum.elements * sizeOf(sum.result), true);
  } else if (command.kind == QueuedCommand::Kind::Pointwise) {
    const PointwiseArgs &pointwise = command.args.pointwise;
    add(pointwise.first.data, pointwise.elements * sizeOf(pointwise.first.dtype), false);
    for (const auto &[function, operand] : llvm::ArrayRef(pointwise.steps, pointwise.count))
      add(operand.data, pointwise.elements * sizeOf(operand.dtype), false);
    add(pointwise.dst, pointwise.elements * sizeOf(pointwise.dtype), true);
  } else {
    add(command.args.bytes.src, command.args.bytes.count, false);
    add(command.args.bytes.dst, command.args.bytes.count, true);
  }
  return touched;
}

} // namespace

Action actionOf(const RunnableHead &candidate) {
  const Tag &tag = candidate.command->tag;
  return {candidate.rank, tag.run, tag.command};
}

Step stepOf(const RunnableHead &candidate) {
  const QueuedCommand &command = *candidate.command;
  Step step{actionOf(candidate), {}};
  step.isWait = command.kind == QueuedCommand::Kind::Wait;
  if (step.isWait || command.kind == QueuedCommand::Kind::Store) {
    step.flag = command.args.flag.address;
    step.value = command.args.flag.value;
  } else {
    step.footprint = footprintOf(command);
  }
  return step;
}

bool conflict(const Step &a, const Step &b) {
  // Waits do not conflict with writes, because flags only increase: once a wait can continue, no
  // later write blocks it again.
  if (a.flag && a.flag == b.flag && !a.isWait && !b.isWait)
    return true;
  for (const Footprint &x : a.footprint)
    for (const Footprint &y : b.footprint)
      if ((x.isWrite || y.isWrite) && x.begin < y.begin + y.bytes && y.begin < x.begin + x.bytes)
        return true;
  return false;
}

//===- Random ---------------------------------------------------------------------------------===//

bool RandomOrders::next() {
  if (round_ == rounds_)
    return false;
  if (round_ != 0)
    stepsBefore_ = steps_;
  steps_ = 0;
  const uint64_t seed = seed_ * 1000003u + round_;
  picker_ = round_ % 4 == 0 ? seededPicker(seed) : priorityPicker(seed, round_ % 4, stepsBefore_);
  ++round_;
  return true;
}

size_t RandomOrders::pick(llvm::ArrayRef<RunnableHead> candidates) {
  ++steps_;
  return picker_(candidates);
}

//===- Complete -------------------------------------------------------------------------------===//

bool AllOrders::next() {
  progress_ = {};
  depth_ = 0;
  if (rounds_ >= 2) {
    while (!choices_.empty() && choices_.back().taken + 1 == choices_.back().count)
      choices_.pop_back();
    isComplete_ = choices_.empty();
    if (isComplete_)
      return false;
    ++choices_.back().taken;
  }
  return rounds_++ <= limit_;
}

bool AllOrders::canRun(const Step &step, const Progress &progress) {
  if (!step.isWait)
    return true;
  auto flag = progress.flags.find(step.flag);
  return (flag == progress.flags.end() ? 0 : flag->second) >= step.value;
}

void AllOrders::advance(const Step &step, QueueId queue, Progress &progress) {
  ++progress.position[queue];
  if (step.flag && !step.isWait)
    progress.flags[step.flag] = step.value;
}

/// Simulates running all other queues as far as possible. Returns false if one of their commands
/// conflicts with `candidate`.
bool AllOrders::isFree(const RunnableHead &candidate) const {
  const QueueId own{candidate.rank, candidate.queue};
  Progress progress = progress_;
  const Step &mine = queues_.at(own)[progress.position[own]];
  for (bool moved = true; moved;) {
    moved = false;
    for (const auto &[queue, steps] : queues_) {
      if (queue == own)
        continue;
      size_t &at = progress.position[queue];
      while (at < steps.size() && canRun(steps[at], progress)) {
        if (conflict(mine, steps[at]))
          return false;
        advance(steps[at], queue, progress);
        moved = true;
      }
    }
  }
  return true;
}

size_t AllOrders::choose(llvm::ArrayRef<RunnableHead> candidates) {
  for (size_t i = 0; i < candidates.size(); ++i)
    if (candidates.size() == 1 || isFree(candidates[i]))
      return i;
  if (depth_ == choices_.size())
    choices_.push_back({0, candidates.size()});
  return choices_[depth_++].taken;
}

size_t AllOrders::pick(llvm::ArrayRef<RunnableHead> candidates) {
  if (rounds_ == 1) {
    queues_[{candidates[0].rank, candidates[0].queue}].push_back(stepOf(candidates[0]));
    return 0;
  }
  size_t chosen = choose(candidates);
  const QueueId queue{candidates[chosen].rank, candidates[chosen].queue};
  advance(queues_.at(queue)[progress_.position[queue]], queue, progress_);
  return chosen;
}

//===- Steered --------------------------------------------------------------------------------===//

size_t HoldBack::pick(llvm::ArrayRef<RunnableHead> candidates) {
  std::vector<RunnableHead> free;
  std::vector<size_t> index;
  for (size_t i = 0; i < candidates.size(); ++i)
    if (std::find(held_.begin(), held_.end(), actionOf(candidates[i])) == held_.end()) {
      free.push_back(candidates[i]);
      index.push_back(i);
    }
  size_t chosen = free.empty() ? picker_(candidates) : index[picker_(free)];
  steps_.push_back(stepOf(candidates[chosen]));
  return chosen;
}

} // namespace braid::test
