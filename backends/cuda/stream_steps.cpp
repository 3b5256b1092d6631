//===- backends/cuda/stream_steps.cpp - the current step of a GPU's stream --------------------===//

#include "backends/cuda/stream_steps.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <utility>

namespace braid {

bool waitsForPeers(CommandKind kind) {
  return kind == CommandKind::Await || kind == CommandKind::Group ||
         kind == CommandKind::Collective;
}

// -- Eager runs. --

uint32_t IssuedSteps::add(uint64_t step) {
  const uint32_t number = count_.load(std::memory_order_relaxed) + 1;
  steps_[number % kKept].store(step, std::memory_order_relaxed);
  count_.store(number, std::memory_order_release);
  return number;
}

/// Reads the word before the count. Steps are counted before they can complete, so done <= count.
void IssuedSteps::appendNext(StepWord &word, Steps &steps) const {
  const uint32_t done = look(word.done);
  const uint32_t count = count_.load(std::memory_order_acquire), left = count - done;
  if (left == 0)
    return;
  const uint32_t shown = left <= kKept ? 1 : kKept;
  const uint32_t first = count - std::min(left, kKept) + 1;
  for (uint32_t i = 0; i < shown; ++i)
    steps.push_back(steps_[(first + i) % kKept].load(std::memory_order_relaxed));
}

uint64_t IssuedSteps::last(StepWord &word) const {
  const uint32_t done = look(word.done);
  const bool isKept = count_.load(std::memory_order_acquire) - done < kKept;
  return done == 0 || !isKept ? kNoStep : steps_[done % kKept].load(std::memory_order_relaxed);
}

// -- Runs in graphs. --

GraphSteps::GraphSteps(const Plan &plan)
    : firstCommand_(plan.firstCommand), commands_(plan.streams.size()),
      waitsAtFirst_(plan.streams.size()), seen_(plan.streams.size()) {
  bool isFirst = true;
  for (uint32_t i = 0; i < plan.commands.size(); ++i) {
    const Command &command = plan.commands[i];
    if (!isStep(command.kind))
      continue;
    const bool waits = waitsForPeers(command.kind);
    if (std::exchange(isFirst, false))
      showsItsBeginning_ = !waits;
    if (waits)
      lastWait_ = i;
    std::vector<uint32_t> &ofStream = commands_[command.stream];
    if (ofStream.empty())
      waitsAtFirst_[command.stream] = waits;
    ofStream.push_back(i);
  }
}

/// A stream's word is 0 until a run completes the stream's first step.
bool GraphSteps::isWithinRun() const {
  bool isAnyUnwritten = false, isAnyAtLast = false;
  for (size_t stream = 0; stream < streams(); ++stream) {
    if (commands_[stream].empty())
      continue;
    const uint32_t done = look(words[stream].done);
    if (done != 0 && done != commands_[stream].back() + 1)
      return true;
    (done == 0 ? isAnyUnwritten : isAnyAtLast) = true;
  }
  return isAnyUnwritten && isAnyAtLast;
}

uint64_t GraphSteps::next(size_t stream) const {
  if (stream >= streams() || commands_[stream].empty())
    return kNoStep;
  const std::vector<uint32_t> &commands = commands_[stream];
  const auto next = std::lower_bound(commands.begin(), commands.end(), look(words[stream].done));
  if (next != commands.begin() && next != commands.end())
    return pack(*next);
  return waitsAtFirst_[stream] ? pack(commands.front()) : kNoStep;
}

uint64_t GraphSteps::last(size_t stream) const {
  const uint32_t done = look(words[stream].done);
  return done == 0 ? kNoStep : pack(done - 1);
}

bool GraphSteps::hasMoved(size_t stream) {
  if (stream >= streams())
    return false;
  const uint32_t done = look(words[stream].done);
  return std::exchange(seen_[stream], done) != done;
}

uint64_t GraphSteps::pack(uint32_t command) const {
  return packStep(run.load(std::memory_order_relaxed), firstCommand_ + command);
}

// -- Eager runs and runs in graphs. --

uint64_t nextStep(size_t stream, const StepsUnderWay &underWay, const IssuedSteps &issued,
                  StepWord &word, llvm::function_ref<bool(uint64_t step)> waits) {
  Steps steps;
  for (const GraphSteps *each : underWay.within)
    steps.push_back(each->next(stream));
  if (underWay.within.empty()) {
    issued.appendNext(word, steps);
    for (const GraphSteps *each : underWay.before)
      steps.push_back(each->next(stream));
  }
  llvm::erase_value(steps, kNoStep);
  const auto waiting = llvm::find_if(steps, waits);
  return waiting != steps.end() ? *waiting : steps.empty() ? kNoStep : steps.front();
}

} // namespace braid
