//===- api/view/steps.cpp - an order in which commands can run --------------------------------===//

#include "api/view/steps.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

namespace braid::view {
namespace {

/// Commands that are issued one behind the other.
struct Queue {
  int32_t rank;
  std::vector<uint32_t> commands;
  size_t next = 0;
  CommandRef head() const { return {rank, commands[next]}; }
  bool isDone() const { return next == commands.size(); }
};

std::vector<Queue> queuesOf(const Page &page, uint32_t queues) {
  std::vector<Queue> all;
  for (size_t rank = 0; rank < page.ranks.size(); ++rank) {
    const Rank &of = page.ranks[rank];
    const size_t count = queues == 0 ? of.streams.size() : queues;
    const size_t first = all.size();
    for (size_t i = 0; i < count; ++i)
      all.push_back({static_cast<int32_t>(rank), {}});
    for (uint32_t i = 0; i < of.commands.size(); ++i)
      all[first + of.commands[i].stream % count].commands.push_back(i);
  }
  return all;
}

} // namespace

Timing stepsOf(const Page &page, uint32_t queues) {
  Timing timing{.name = "order"};
  for (const Rank &rank : page.ranks)
    timing.spans.emplace_back(rank.commands.size());
  auto span = [&](CommandRef ref) -> Span & {
    return timing.spans[static_cast<size_t>(ref.rank)][ref.command];
  };
  std::vector<Queue> all = queuesOf(page, queues);
  for (double step = 0;; ++step) {
    std::vector<Queue *> moving;
    for (Queue &queue : all) {
      if (queue.isDone())
        continue;
      const CommandRef head = queue.head();
      const CommandRef cause =
          page.ranks[static_cast<size_t>(head.rank)].commands[head.command].cause;
      if (std::isnan(span(head).begin))
        span(head).begin = step;
      if (!cause.isValid() || span(cause).end <= step) // false if it has not run
        moving.push_back(&queue);
    }
    if (moving.empty()) {
      timing.total = step;
      return timing;
    }
    for (Queue *queue : moving) {
      span(queue->head()).end = step + 1;
      ++queue->next;
    }
  }
}

} // namespace braid::view
