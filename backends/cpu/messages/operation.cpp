//===- backends/cpu/messages/operation.cpp - a group or a collective under way ----------------===//

#include "backends/cpu/messages/operation.h"

#include "ir/failure.h"
#include "runtime/job/bootstrap/futex.h"

#include <cstring>
#include <map>

namespace braid {

Result<Advance> Operation::advance() {
  if (current_ == steps_.steps.size())
    return Advance::IsOver;
  if (!isItsTurn())
    return Advance::Waits;
  bellSeen_ = link_.bell().load(std::memory_order_relaxed);
  if (!exchange_)
    begin();
  const Advance moved = BRAID_TRY(link_.advance(*exchange_));
  if (moved != Advance::IsOver)
    return moved;
  finish(steps_.steps[current_]);
  exchange_.reset();
  if (++current_ < steps_.steps.size())
    return Advance::Moved;
  turn_.store(number_ + 1, std::memory_order_relaxed);
  futexWake(&turn_, FutexScope::Processes);
  return Advance::IsOver;
}

void Operation::begin() {
  if (!scratch_ && steps_.scratchBytes > 0)
    scratch_.reset(new char[static_cast<size_t>(steps_.scratchBytes)]);
  Step &step = steps_.steps[current_];
  for (Transfer &transfer : step.transfers)
    if (transfer.scratchAt >= 0)
      transfer.data = scratch_.get() + transfer.scratchAt;
  exchange_.emplace(Exchange{tag_, step.transfers});
}

/// The peers have all that was sent, so results may lie over operands.
void Operation::finish(const Step &step) {
  for (const Step::LocalCopy &copy : step.copies)
    if (copy.bytes != 0)
      std::memmove(copy.dst, copy.src, static_cast<size_t>(copy.bytes));
  if (step.reduction)
    reduce(*step.reduction, scratch_.get());
}

bool Operation::canAdvance() const {
  return isItsTurn() && (!exchange_ || link_.canAdvance(*exchange_));
}

void Operation::sleep(std::chrono::milliseconds slice) {
  const uint32_t turn = turn_.load(std::memory_order_relaxed);
  if (turn != number_)
    return futexWait(&turn_, turn, slice, FutexScope::Processes);
  if (exchange_)
    futexWait(&link_.bell(), bellSeen_, slice, FutexScope::Processes);
}

const void *Operation::sleepsOn() const {
  return isItsTurn() ? static_cast<const void *>(&link_.bell()) : &turn_;
}

void OperationMaker::number(Step &step) {
  std::map<std::pair<Direction, int64_t>, int64_t> last;
  for (size_t i = 0; i < step.transfers.size(); ++i) {
    Transfer &transfer = step.transfers[i];
    std::vector<uint32_t> &counts = transfer.direction == Direction::Send ? sends_ : receives_;
    transfer.number = counts[static_cast<size_t>(transfer.peer)]++;
    const auto [before, isFirst] =
        last.try_emplace({transfer.direction, transfer.peer}, static_cast<int64_t>(i));
    transfer.follows = isFirst ? -1 : before->second;
    before->second = static_cast<int64_t>(i);
  }
}

std::unique_ptr<Operation> OperationMaker::make(Tag tag, const IssuedMessages &issued) {
  Steps steps = stepsOf(issued, rank_);
  for (Step &step : steps.steps)
    number(step);
  return std::make_unique<Operation>(link_, turn_, operations_++, tag, std::move(steps));
}

} // namespace braid
