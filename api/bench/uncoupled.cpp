//===- api/bench/uncoupled.cpp - the GEMMs and the transfers of a Plan without dependencies ---===//

#include "api/bench/bench_row.h"

#include "runtime/plan/plan_parts.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

void shiftBuffer(Range &range, uint32_t by) {
  if (range.buffer != kPeerBuffer)
    range.buffer += by;
}

/// Adds `first` to all buffer numbers in a Plan.
void shiftBuffers(Plan &gemms, uint32_t first) {
  for (PlanMatmul &matmul : gemms.matmuls)
    for (Range *range : {&matmul.a, &matmul.b, &matmul.c, &matmul.bias, &matmul.addend})
      shiftBuffer(*range, first);
  for (PlanPointwise &pointwise : gemms.pointwise) {
    shiftBuffer(pointwise.dst, first);
    shiftBuffer(pointwise.first.range, first);
    for (PointwiseStep<PlanPointwise::Operand> &step : pointwise.steps)
      shiftBuffer(step.operand.range, first);
  }
}

/// Renumbers the buffers of `gemms`; appends its buffers, inputs and outputs to those of `plan`.
void addBuffers(Plan &plan, Plan &gemms) {
  const auto first = static_cast<uint32_t>(plan.buffers.size());
  shiftBuffers(gemms, first);
  for (auto [theirs, all] :
       {std::pair(&gemms.inputs, &plan.inputs), {&gemms.outputs, &plan.outputs}})
    for (uint32_t buffer : *theirs) {
      gemms.buffers[buffer].offset = static_cast<int64_t>(all->size());
      all->push_back(first + buffer);
    }
  llvm::append_range(plan.buffers, gemms.buffers);
}

} // namespace

Plan uncoupled(const Plan &plan) {
  Plan gemms = gemmsOf(plan), both = transfersAlone(plan);
  const auto streams = static_cast<uint32_t>(gemms.streams.size());
  const uint32_t events = both.events, begin = 2 * events, end = begin + 1;
  addBuffers(both, gemms);
  both.matmuls = gemms.matmuls;
  both.pointwise = gemms.pointwise;
  std::vector<Command> commands = {
      {.kind = CommandKind::Record, .stream = 0, .event = begin},
      {.kind = CommandKind::WaitEvent, .stream = streams, .event = begin}};
  for (Command command : both.commands) {
    command.stream += streams;
    commands.push_back(command);
  }
  commands.push_back({.kind = CommandKind::Record, .stream = streams, .event = end});
  for (Command command : gemms.commands) {
    if (command.event != kNone)
      command.event += events;
    commands.push_back(command);
  }
  commands.push_back({.kind = CommandKind::WaitEvent, .stream = 0, .event = end});
  both.commands = std::move(commands);
  both.events = end + 1;
  for (uint32_t i = 0; i < streams; ++i)
    both.streams.push_back("transfers " + std::to_string(i));
  both.releases.clear();
  return both;
}

} // namespace braid
